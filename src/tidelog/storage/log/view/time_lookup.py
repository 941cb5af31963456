"""The lookup of offsets by timestamp: the first record at or after a time, or with the largest time.

Two searches work on two kinds of segments. A segment whose largest timestamp is below the target is skipped. In other
segments the time index and the offset index give the start position, batch headers show which batch can hold the
record, and only that batch is decoded. The first record with the largest timestamp is the first one at or after it.

=============================  =========================================================================================
``first_at_or_after``,         a directory that another process may own. The largest timestamp of a finished and flushed
``latest_timestamp``           segment comes from its ``.timeindex``. For others batch headers are read too, because
                               their index does not reach their end
``first_in_segments``,         segments of the log's owner, whose indexes are valid
``latest_in_segments``
=============================  =========================================================================================

A search begins at the last time entry *below* the target, because all earlier records are older. This holds for either
offset that a broker may have written into the entry (brokers before 3.7 wrote the append's last one for LogAppendTime).
Kafka differs: it searches only one segment. It finds nothing if that segment's record is below the log start offset or,
for the largest timestamp, at or above the end of the read. Here the search continues.

Thread rule: any thread; a lookup takes no lock and changes nothing.
Source: Kafka's ``UnifiedLog.fetchOffsetByTimestamp``, ``LogSegment`` (KIP-33, KIP-734).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from tidelog.kernel import ColumnDecoder
from tidelog.record.attributes import CODEC_MASK
from tidelog.record.batch_header import V2_HEADER_BYTES
from tidelog.record.compression import decompress
from tidelog.record.decode import decode_columns
from tidelog.record.legacy import read_messages
from tidelog.record.record_size import MAX_RECORD_BYTES, first_larger, require_messages, too_large
from tidelog.storage.epoch import LeaderEpochCache
from tidelog.storage.index import TimestampOffset
from tidelog.storage.log.state.log_segments import HasBaseOffset, LogSegments
from tidelog.storage.log.view.column_stream import TIMESTAMPS_ONLY, column_chunks
from tidelog.storage.log.view.list_offsets import ListRequest
from tidelog.storage.log.view.row_stream import CorruptPolicy, OnSkipped, ReadRange, Rows, RowStream, StateSource
from tidelog.storage.log.view.view_state import ViewSegment, ViewState
from tidelog.storage.segment.segment_reader import Chunk, SegmentReader

__all__ = [
    "TimestampOffset",
    "first_at_or_after",
    "first_in_segments",
    "indexed_largest",
    "largest_timestamp",
    "latest_in_segments",
    "latest_timestamp",
    "list_request",
]

_S = TypeVar("_S", bound=HasBaseOffset)
_O = TypeVar("_O", bound="OwnedSegment")


class OwnedSegment(Protocol):
    """A segment of the log's owner, such as ``LogSegment``."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def path(self) -> Path: ...
    @property
    def max_timestamp(self) -> TimestampOffset: ...
    def position_of_timestamp(self, timestamp_ms: int, start_offset: int) -> int: ...
    def chunks(self, start_position: int, *, verify_crc: bool) -> Iterator[Chunk]: ...


# --- a directory that another process may own ---


def first_at_or_after(
    source: StateSource, timestamp_ms: int, start: int, end: int, on_corrupt: CorruptPolicy = CorruptPolicy.FAIL
) -> TimestampOffset | None:
    """Return the first record in ``[start, end)`` with at least that timestamp. Control records count, as in Kafka."""
    state = source.state
    for segment in state.segments.between(start, end):
        with segment.open(source.fs, source.directory) as reader:
            if largest_timestamp(state, segment, reader) < timestamp_ms:
                continue
            wanted = _from_hint(state, segment, reader, timestamp_ms, start, end)
        found = _first_in(source, wanted, timestamp_ms, on_corrupt)
        if found is not None:
            return found
    return None


def latest_timestamp(source: StateSource, start: int, end: int) -> TimestampOffset | None:
    """Return the first record in ``[start, end)`` with the largest timestamp, or None if none has a timestamp."""
    state = source.state
    candidates = []
    for segment in state.segments.between(start, end):
        with segment.open(source.fs, source.directory) as reader:
            candidates.append((largest_timestamp(state, segment, reader), segment))
    best: TimestampOffset | None = None
    for largest, segment in _promising(candidates):
        if best is not None and best.timestamp > largest:
            break
        with segment.open(source.fs, source.directory) as reader:
            wanted = _from_hint(state, segment, reader, largest, start, end)
            whole = _from_hint(state, segment, reader, 0, start, end)
        found = _first_in(source, wanted, largest)
        if found is None:  # the segment's largest timestamp is outside [start, end)
            found = _latest_in(RowStream(source, whole), whole.start, whole.end)
        best = _better(best, found)
    return best


def largest_timestamp(state: ViewState, segment: ViewSegment, reader: SegmentReader) -> int:
    """Return the largest timestamp of the segment's batches, or -1 if none has one."""
    finished = indexed_largest(state, segment, reader)
    if finished is not None:
        return finished
    # The entries of an unfinished index are valid, but do not reach the segment's end.
    hints = reader.time_hints
    indexed = None if state.was_recovered(segment) else hints.largest
    start = 0 if indexed is None else reader.position_of(int(hints.offsets[-1]))
    end = state.end_position(segment)
    tables = reader.headers(start, reader.size if end is None else end)
    largest = [int(table.max_timestamp.max()) for table in tables if len(table)]
    return max([-1 if indexed is None else indexed, *largest])


def indexed_largest(state: ViewState, segment: ViewSegment, reader: SegmentReader) -> int | None:
    """Return the largest timestamp from the time index alone, or None if that is unfinished or unreliable."""
    is_active = segment.base_offset == state.log_end.segment_base_offset
    if is_active or state.was_recovered(segment) or not reader.time_hints.complete:
        return None
    return reader.time_hints.largest


def _from_hint(
    state: ViewState, segment: ViewSegment, reader: SegmentReader, timestamp_ms: int, start: int, end: int
) -> ReadRange:
    """Return the segment's offsets from the last time entry below the timestamp on."""
    hinted = reader.time_hints.floor(timestamp_ms - 1)
    following = state.segments.higher(segment.base_offset)
    return ReadRange(
        start=max(start, segment.base_offset, 0 if hinted is None else hinted + 1),
        end=end if following is None else min(end, following.base_offset),
        control=True,
    )


def _first_in(
    source: StateSource, wanted: ReadRange, timestamp_ms: int, on_corrupt: CorruptPolicy = CorruptPolicy.FAIL
) -> TimestampOffset | None:
    stream = RowStream(source, wanted, on_corrupt=on_corrupt)
    on_skipped = stream.stats.count if on_corrupt is CorruptPolicy.SKIP else None
    return _first_record(stream, timestamp_ms, wanted.start, wanted.end, on_skipped)


# --- the log owner's segments ---


def first_in_segments(
    segments: LogSegments[_O], timestamp_ms: int, start: int, end: int, *, max_record_bytes: int = MAX_RECORD_BYTES
) -> TimestampOffset | None:
    """Search like ``first_at_or_after``. ``end`` is the high watermark or the last stable offset.

    Raise InvalidRecordError if the search meets a record above ``max_record_bytes`` in a compressed batch.
    """
    for segment in segments.between(start, end):
        if segment.size and segment.max_timestamp.timestamp >= timestamp_ms:
            rows = _owned_rows(segment, timestamp_ms, start, end)
            found = _first_record(rows, timestamp_ms, start, end, max_record_bytes=max_record_bytes)
            if found is not None:
                return found
    return None


def list_request(
    segments: LogSegments[_O], epochs: LeaderEpochCache, start: int, end: int, *, max_record_bytes: int
) -> ListRequest:
    """Build the input of ``list_offset`` from the segments of the log's owner."""
    return ListRequest(
        log_start=start,
        end=end,
        epochs=epochs,
        first_at_or_after=lambda wanted_ms: first_in_segments(
            segments, wanted_ms, start, end, max_record_bytes=max_record_bytes
        ),
        latest_timestamp=lambda: latest_in_segments(segments, start, end, max_record_bytes=max_record_bytes),
    )


def latest_in_segments(
    segments: LogSegments[_O], start: int, end: int, *, max_record_bytes: int = MAX_RECORD_BYTES
) -> TimestampOffset | None:
    """Search like ``latest_timestamp``, with the errors of ``first_in_segments``."""
    candidates = [
        (segment.max_timestamp.timestamp, segment) for segment in segments.between(start, end) if segment.size
    ]
    best: TimestampOffset | None = None
    for largest, segment in _promising(candidates):
        if best is not None and best.timestamp > largest:
            break
        rows = _owned_rows(segment, largest, start, end)
        found = _first_record(rows, largest, start, end, max_record_bytes=max_record_bytes)
        if found is None:
            found = _latest_in(_owned_rows(segment, -1, start, end), start, end)
        best = _better(best, found)
    return best


def _owned_rows(segment: OwnedSegment, timestamp_ms: int, start: int, end: int) -> Iterator[Rows]:
    """Yield batches with offsets in ``[start, end)``, from the indexes' last position before the timestamp on."""
    position = segment.position_of_timestamp(timestamp_ms - 1, start)
    for buffer, table, base_position in segment.chunks(position, verify_crc=False):
        wanted = (table.last_offset >= start) & (table.base_offset < end)
        yield Rows(buffer, table.take(wanted), base_position, segment.path)
        if len(table) and table.last_offset[-1] >= end:
            return


# --- batches of either kind ---


def _promising(candidates: Iterable[tuple[int, _S]]) -> Sequence[tuple[int, _S]]:
    """Return the segments with timestamps, the largest first, the older one first if equal."""
    timed = [candidate for candidate in candidates if candidate[0] >= 0]
    return sorted(timed, key=lambda candidate: (-candidate[0], candidate[1].base_offset))


def _first_record(
    batches: Iterable[Rows],
    timestamp_ms: int,
    start: int,
    end: int,
    on_skipped: OnSkipped | None = None,
    *,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> TimestampOffset | None:
    for rows in batches:
        # One batch at a time: the first batch that reaches the target nearly always holds the record.
        for row in np.flatnonzero(rows.table.max_timestamp >= timestamp_ms).tolist():
            batch, found = _one(rows, row), None
            for chunk in column_chunks([batch], TIMESTAMPS_ONLY, start, end, on_skipped=on_skipped):
                at = np.flatnonzero(chunk.columns.timestamp >= timestamp_ms)
                if len(at) and found is None:
                    found = TimestampOffset(int(chunk.columns.timestamp[at[0]]), int(chunk.columns.offset[at[0]]))
            if max_record_bytes < MAX_RECORD_BYTES:
                _require_sizes(batch, max_record_bytes, found)
            if found is not None:
                return found
    return None


def _require_sizes(batch: Rows, max_bytes: int, found: TimestampOffset | None) -> None:
    """Check the sizes of the records up to the one found."""
    row = batch.table.row(0)
    codec = row.attributes & CODEC_MASK
    if not codec or not row.record_count:
        return
    start = row.position - batch.base_position
    entry = memoryview(batch.buffer).cast("B")[start : start + row.size]
    if row.magic < 2:
        require_messages(read_messages(entry), max_bytes)
        return
    larger = first_larger(decompress(codec, entry[V2_HEADER_BYTES:]), max_bytes)
    if larger is None:
        return
    offsets = [
        offset
        for columns in decode_columns(batch.buffer, batch.table, ColumnDecoder(), base_position=batch.base_position)
        for offset in columns.offset.tolist()
    ]
    if found is None or offsets[larger] <= found.offset:
        raise too_large(f"the record at offset {offsets[larger]}", max_bytes)


def _latest_in(batches: Iterable[Rows], start: int, end: int) -> TimestampOffset | None:
    """Return the first record with the largest timestamp in these batches."""
    best: TimestampOffset | None = None
    for rows in batches:
        largest = rows.table.max_timestamp
        for row in np.argsort(-largest, kind="stable").tolist():
            if largest[row] < 0 or (best is not None and largest[row] < best.timestamp):
                break
            for chunk in column_chunks([_one(rows, row)], TIMESTAMPS_ONLY, start, end):
                at = int(chunk.columns.timestamp.argmax())
                best = _better(best, TimestampOffset(int(chunk.columns.timestamp[at]), int(chunk.columns.offset[at])))
    return best


def _one(rows: Rows, row: int) -> Rows:
    return rows._replace(table=rows.table.take(slice(row, row + 1)))


def _better(one: TimestampOffset | None, other: TimestampOffset | None) -> TimestampOffset | None:
    """Return the result with the larger timestamp, then the smaller offset."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda found: (found.timestamp, -found.offset))
