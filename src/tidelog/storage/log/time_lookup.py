"""From a timestamp to an offset: the first record at or after it, and the record with the largest one.

The first segment whose largest timestamp reaches the target is searched from where its time index points. Largest
timestamps come from the ``.timeindex`` of segments that are finished and flushed; of the others the batch headers are
asked, because their index ends somewhere before their end.
Where Kafka differs: it looks into one segment only, and so finds nothing where that segment's record lies below the log
start offset; here the next segments are searched too.

Reads only. Called by: the view. Source: Kafka's ``UnifiedLog.fetchOffsetByTimestamp``, ``LogSegment``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tidelog.storage.log.column_stream import TIMESTAMPS_ONLY, column_chunks
from tidelog.storage.log.row_stream import OnCorrupt, OnSkipped, ReadRange, Rows, RowStream, StateSource
from tidelog.storage.log.view_state import ViewSegment, ViewState
from tidelog.storage.segment.segment_reader import SegmentReader


class TimestampOffset(NamedTuple):
    """A record's timestamp (ms) and offset."""

    timestamp: int
    offset: int


def first_at_or_after(
    source: StateSource, timestamp_ms: int, start: int, end: int, on_corrupt: OnCorrupt = OnCorrupt.FAIL
) -> TimestampOffset | None:
    """The first record of ``[start, end)`` whose timestamp is at least that; control records count, as for Kafka."""
    state = source.state
    for segment in state.segments.between(start, end):
        with segment.open(source.fs, source.directory) as reader:
            if largest_timestamp(state, segment, reader) < timestamp_ms:
                continue
            # Up to that entry's offset all timestamps are at most its own, which is below the target.
            hinted = reader.time_hints.floor(timestamp_ms - 1)
        following = state.segments.higher(segment.base_offset)
        first = max(start, segment.base_offset, 0 if hinted is None else hinted + 1)
        stop = end if following is None else min(end, following.base_offset)
        found = _first_in(source, first, stop, timestamp_ms, on_corrupt)
        if found is not None:
            return found
    return None


def latest_timestamp(source: StateSource, start: int, end: int) -> TimestampOffset | None:
    """The first record of ``[start, end)`` with the largest timestamp of all; None where no record has one."""
    state = source.state
    candidates = []
    for segment in state.segments.between(start, end):
        with segment.open(source.fs, source.directory) as reader:
            largest = largest_timestamp(state, segment, reader)
        if largest >= 0:
            candidates.append((largest, segment))
    best: TimestampOffset | None = None
    # The largest first: a segment's largest record may lie outside [start, end), so the next one has its turn too.
    for largest, segment in sorted(candidates, key=lambda candidate: (-candidate[0], candidate[1].base_offset)):
        if best is not None and best.timestamp > largest:
            break
        following = state.segments.higher(segment.base_offset)
        stop = end if following is None else min(end, following.base_offset)
        stream = RowStream(source, ReadRange(start=max(start, segment.base_offset), end=stop, control=True))
        for rows in stream:
            best = _latest_in(rows, best, start, stop)
    return best


def _latest_in(rows: Rows, best: TimestampOffset | None, start: int, end: int) -> TimestampOffset | None:
    """The better of ``best`` and the records of these batches: the larger timestamp, then the smaller offset."""
    largest = rows.table.max_timestamp
    for row in np.argsort(-largest, kind="stable").tolist():
        if largest[row] < 0 or (best is not None and largest[row] < best.timestamp):
            break
        batch = rows._replace(table=rows.table.take(slice(row, row + 1)))
        for chunk in column_chunks([batch], TIMESTAMPS_ONLY, start, end):
            at = int(chunk.columns.timestamp.argmax())
            found = TimestampOffset(int(chunk.columns.timestamp[at]), int(chunk.columns.offset[at]))
            if best is None or (found.timestamp, -found.offset) > (best.timestamp, -best.offset):
                best = found
    return best


def largest_timestamp(state: ViewState, segment: ViewSegment, reader: SegmentReader) -> int:
    """Of all the segment's batches, -1 where none has a timestamp."""
    unflushed = state.recovered is not None and segment.base_offset >= state.recovered.start_offset
    hints = reader.time_hints
    indexed = None if unflushed else hints.largest
    if indexed is not None and hints.complete and segment.base_offset != state.log_end.segment_base_offset:
        return indexed
    # An index that is not finished is right as far as it goes.
    start = 0 if indexed is None else reader.position_of(int(hints.offsets[-1]))
    table = reader.table(start, state.end_position(segment), verify_crc=False)
    read = int(table.max_timestamp.max()) if len(table) else -1
    return read if indexed is None else max(read, indexed)


def _first_in(
    source: StateSource, start: int, end: int, timestamp_ms: int, on_corrupt: OnCorrupt
) -> TimestampOffset | None:
    stream = RowStream(source, ReadRange(start=start, end=end, control=True), on_corrupt=on_corrupt)
    on_skipped = stream.stats.count if on_corrupt is OnCorrupt.SKIP else None
    for rows in stream:
        found = _first_record(_reaching(rows, timestamp_ms), timestamp_ms, start, end, on_skipped)
        if found is not None:
            return found
    return None


def _reaching(rows: Rows, timestamp_ms: int) -> Iterable[Rows]:
    """One batch after the other of those whose largest timestamp reaches the target."""
    for row in np.flatnonzero(rows.table.max_timestamp >= timestamp_ms).tolist():
        yield rows._replace(table=rows.table.take(slice(row, row + 1)))


def _first_record(
    rows: Iterable[Rows], timestamp_ms: int, start: int, end: int, on_skipped: OnSkipped | None
) -> TimestampOffset | None:
    for chunk in column_chunks(rows, TIMESTAMPS_ONLY, start, end, on_skipped=on_skipped):
        at = np.flatnonzero(chunk.columns.timestamp >= timestamp_ms)
        if len(at):
            return TimestampOffset(int(chunk.columns.timestamp[at[0]]), int(chunk.columns.offset[at[0]]))
    return None
