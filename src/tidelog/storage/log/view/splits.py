"""The division of an offset range into pieces of about equal bytes, for parallel readers.

No batches are scanned. Pieces begin at batch boundaries from the ``.index`` files. One batch header is read at each
boundary for its offset. A segment without index entries is not divided. Segments that cannot hold a wanted record are
left out, by offset, and by time if the ``.timeindex`` shows their largest timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidelog.model import FileMissingError
from tidelog.storage.log.view.row_stream import StateSource
from tidelog.storage.log.view.view_state import ViewSegment, ViewState

_OFFSET_BYTES = 8
"""Size of the offset with which a batch of any format begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Offsets ``[start, end)`` and the approximate number of ``.log`` bytes that hold them."""

    start: int
    end: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """A batch boundary: its batch's first offset, and the bytes up to the next boundary."""

    offset: int
    size_bytes: int


def plan_splits(
    source: StateSource, start: int, end: int, target_bytes: int, min_timestamp_ms: int | None = None
) -> list[Split]:
    """Return ascending, disjoint splits that cover every record of ``[start, end)`` at or after the timestamp."""
    state = source.state
    splits: list[Split] = []
    for segment in state.segments.between(start, end):
        if min_timestamp_ms is not None and _ends_before(source, state, segment, min_timestamp_ms):
            continue
        following = state.segments.higher(segment.base_offset)
        segment_end = end if following is None else min(end, following.base_offset)
        pending: Split | None = None
        for cut in _cuts(source, state, segment, target_bytes):
            if cut.offset >= segment_end:
                break
            if pending is not None:
                _add(splits, pending, cut.offset, start, target_bytes)
            pending = Split(start=cut.offset, end=segment_end, size_bytes=cut.size_bytes)
        if pending is not None:
            _add(splits, pending, segment_end, start, target_bytes)
    return splits


def _add(splits: list[Split], piece: Split, end: int, start: int, target_bytes: int) -> None:
    """Append a piece, or join it to the previous split if they are adjacent and stay within the target."""
    piece_start = max(piece.start, start)
    if end <= piece_start:
        return
    before = splits[-1] if splits else None
    if before is not None and before.end == piece_start and before.size_bytes + piece.size_bytes <= target_bytes:
        splits[-1] = Split(start=before.start, end=end, size_bytes=before.size_bytes + piece.size_bytes)
    else:
        splits.append(Split(start=piece_start, end=end, size_bytes=piece.size_bytes))


def _cuts(source: StateSource, state: ViewState, segment: ViewSegment, target_bytes: int) -> Iterator[_Cut]:
    """Yield the segment's start, then index entries at least ``target_bytes`` apart."""
    end_position = state.end_position(segment)
    size = segment.size if end_position is None else end_position
    if size <= target_bytes:
        yield _Cut(offset=segment.base_offset, size_bytes=size)
        return
    try:
        reader = segment.open(source.fs, source.directory)
    except FileMissingError:
        yield _Cut(offset=segment.base_offset, size_bytes=size)
        return
    with reader:
        offset, position = segment.base_offset, 0
        hints = reader.offset_hints
        # There cannot be more boundaries than index entries: use every entry then.
        pieces = min(max(1, round(size / target_bytes)), len(hints) + 1)
        wanted = size * np.arange(1, pieces, dtype=np.int64) // pieces
        rows = np.unique(hints.positions.searchsorted(wanted)) if pieces <= len(hints) else np.arange(len(hints))
        for row in rows.tolist():
            if row >= len(hints) or hints.positions[row] >= size:
                break
            at = int(hints.positions[row])
            first = int.from_bytes(reader.read(at, _OFFSET_BYTES), "big", signed=True)
            if not offset < first <= int(hints.offsets[row]):
                continue  # a damaged index entry: skip this boundary
            yield _Cut(offset=offset, size_bytes=at - position)
            offset, position = first, at
        yield _Cut(offset=offset, size_bytes=size - position)


def _ends_before(source: StateSource, state: ViewState, segment: ViewSegment, timestamp_ms: int) -> bool:
    """Return True if all records of a segment are older than the timestamp, False if the indexes do not show it."""
    if segment.base_offset == state.log_end.segment_base_offset:
        return False  # the index of the last segment is not finished
    if state.recovered is not None and segment.base_offset >= state.recovered.start_offset:
        return False
    try:
        with segment.open(source.fs, source.directory) as reader:
            hints = reader.time_hints
    except FileMissingError:
        return False
    return hints.complete and hints.largest is not None and hints.largest < timestamp_ms
