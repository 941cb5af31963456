"""The items of the picture of a segment's index density, at most some hundreds of each kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from tidelog.inspect.index_entries import Int64s, OffsetEntries, TimeEntries
from tidelog.inspect.segment_survey import Damage
from tidelog.web.page import Row
from tidelog.web.svg.index_density import DAMAGE, FILE, GAP, INDEX, LOG, TAIL, TIME

_MOST_ITEMS: Final = 280


def density_items(
    offsets: OffsetEntries,
    times: TimeEntries,
    damages: Sequence[Damage],
    *,
    size: int,
    valid_end: int,
    wide_bytes: int,
    files: Mapping[str, Row],
) -> list[Row]:
    """Return the items. ``valid_end`` is the position after the last valid batch; a gap above ``wide_bytes`` is wide.

    ``files`` has the used and the allocated bytes of index files by their extension.
    """
    valid = offsets.valid(size)
    items: list[Row] = [{"kind": LOG, "from": 0, "to": valid_end}]
    if valid_end < size:
        items.append({"kind": TAIL, "from": valid_end, "to": size})
    items += [
        {"kind": DAMAGE, "from": one.position, "to": one.position + one.size, "reason": one.reason}
        for one in damages
        if one.position < valid_end
    ]
    items += _gaps(valid.positions, valid_end, wide_bytes)
    items += _index_runs(valid)
    items += _time_runs(times, valid)
    items += [{"kind": FILE, "file": name, **sizes} for name, sizes in files.items()]
    return items


def _runs(count: int) -> Iterator[slice]:
    """Yield slices that cover ``count`` neighbours, at most ``_MOST_ITEMS`` of them."""
    each = -(-count // _MOST_ITEMS) or 1
    for start in range(0, count, each):
        yield slice(start, min(count, start + each))


def _gaps(positions: Int64s, end: int, wide_bytes: int) -> Iterator[Row]:
    bounds = np.concatenate(([0], positions[positions < end], [end])).astype(np.int64)
    sizes = np.diff(bounds)
    for run in _runs(len(sizes)):
        largest = int(sizes[run].max())
        yield {
            "kind": GAP,
            "from": int(bounds[run.start]),
            "to": int(bounds[run.stop]),
            "gaps": run.stop - run.start,
            "largest_gap": largest,
            "is_wide": largest > wide_bytes,
        }


def _index_runs(entries: OffsetEntries) -> Iterator[Row]:
    for run in _runs(len(entries)):
        yield {
            "kind": INDEX,
            "from": int(entries.positions[run.start]),
            "to": int(entries.positions[run.stop - 1]),
            "entries": run.stop - run.start,
            "first_offset": int(entries.offsets[run.start]),
            "last_offset": int(entries.offsets[run.stop - 1]),
        }


def _time_runs(times: TimeEntries, entries: OffsetEntries) -> Iterator[Row]:
    """Yield the time entries at the positions of the index entries before their batches."""
    rows = np.searchsorted(entries.offsets, times.offsets, side="right") - 1
    near = np.where(rows >= 0, entries.positions[np.maximum(rows, 0)], 0) if len(entries) else np.zeros(len(times))
    for run in _runs(len(times)):
        yield {
            "kind": TIME,
            "from": int(near[run].min()),
            "to": int(near[run].max()),
            "entries": run.stop - run.start,
            "first_timestamp": int(times.timestamps[run.start]),
            "last_timestamp": int(times.timestamps[run.stop - 1]),
        }
