"""The tombstones of a log and their delete horizons, counted by segment. Reads only.

A tombstone is a record without a value. The first clean that reads it gives its batch a delete horizon: that clean's
time plus ``delete.retention.ms``. The first clean after the horizon removes it. Batches of format v0 and v1 have no
horizon. Source: KIP-534.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tidelog.runtime.progress import Advance
from tidelog.storage.log.view.column_stream import ColumnChoice, column_chunks
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import CorruptPolicy, ReadRange, RowStream, SkippedRange

_VALUES_ONLY = ColumnChoice(keys=False, headers=False)


@dataclass(slots=True, kw_only=True)
class SegmentTombstones:
    """The tombstones of one segment. Horizons are in ms, None without any."""

    base_offset: int
    count: int = 0
    without_horizon: int = 0
    """The tombstones that no clean has read yet."""
    passed: int = 0
    """The tombstones whose horizon has passed: the next clean removes them."""
    first_horizon_ms: int | None = None
    last_horizon_ms: int | None = None


def count_tombstones(
    view: LogView, high_watermark: int, *, now_ms: int, advance: Advance
) -> tuple[list[SegmentTombstones], list[SkippedRange]]:
    """Return the segments that have tombstones, and the damaged ranges that were left out.

    Data of aborted transactions does not count. ``advance`` receives the bytes of each read.
    """
    segments = view.state.segments
    skipped: list[SkippedRange] = []
    if not len(segments):
        return [], skipped
    wanted = ReadRange(
        start=segments.first.base_offset, end=view.log_end, aborted=view.transactions(high_watermark).aborted
    )
    stream = RowStream(view, wanted, on_corrupt=CorruptPolicy.SKIP, on_skipped=skipped.append)
    found: dict[Path, SegmentTombstones] = {}
    for rows in stream:
        advance(int(rows.table.size.sum()))
        for chunk in column_chunks([rows], _VALUES_ONLY, wanted.start, wanted.end, on_skipped=skipped.append):
            columns = chunk.columns
            if not columns.value_null_count or columns.value_valid is None or columns.batch is None:
                continue
            of_segment = found.get(chunk.path)
            if of_segment is None:
                of_segment = found[chunk.path] = SegmentTombstones(base_offset=int(chunk.path.name[:20]))
            batches = columns.batch[~columns.value_valid]
            _add(of_segment, chunk.table.base_timestamp[batches], chunk.table.has_delete_horizon[batches], now_ms)
    return list(found.values()), skipped


def _add(found: SegmentTombstones, horizons: NDArray[np.int64], has_horizon: NDArray[np.bool_], now_ms: int) -> None:
    """Add tombstones, each with the horizon of its batch."""
    known = horizons[has_horizon]
    found.count += len(horizons)
    found.without_horizon += len(horizons) - len(known)
    found.passed += int((known <= now_ms).sum())
    if len(known):
        found.first_horizon_ms = _smaller(found.first_horizon_ms, int(known.min()))
        found.last_horizon_ms = max(found.last_horizon_ms or 0, int(known.max()))


def _smaller(one: int | None, other: int) -> int:
    return other if one is None else min(one, other)


def total_of(segments: Sequence[SegmentTombstones]) -> SegmentTombstones:
    """Return the sums over all segments. ``base_offset`` is -1."""
    total = SegmentTombstones(base_offset=-1)
    for one in segments:
        total.count += one.count
        total.without_horizon += one.without_horizon
        total.passed += one.passed
        if one.first_horizon_ms is not None and one.last_horizon_ms is not None:
            total.first_horizon_ms = _smaller(total.first_horizon_ms, one.first_horizon_ms)
            total.last_horizon_ms = max(total.last_horizon_ms or 0, one.last_horizon_ms)
    return total
