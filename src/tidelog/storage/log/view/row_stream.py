"""The batches of an offset range in offset order, each once, even while a broker changes the files.

A broker may roll, delete, compact or truncate during a read. The stream keeps only the next offset to deliver. If a
file has disappeared, or if bytes are inconsistent in a held directory, it takes a fresh state and continues from that
offset. An inconsistency that remains is real. Open files stay readable after they were renamed or deleted.

The batches of one segment are corrupt unless CRC and header are valid, offsets ascend, and they stay below the next
segment's base offset. With ``CorruptPolicy.SKIP`` the stream continues at the next batch that meets all conditions. It
counts the bytes left out, and reports them to ``on_skipped`` between the rows before and after them.

Records that the owner deletes or truncates before they were read cause an error. With ``on_lost`` they are reported
there instead, and the stream continues with the remaining records.

Thread rule: one thread for a stream; many streams may share a state source.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from tidelog.kernel import BatchTable, Stop
from tidelog.model import CorruptRecordError, FileMissingError, OffsetOutOfRangeError
from tidelog.record.attributes import CONTROL_FLAG, TRANSACTIONAL_FLAG
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.transaction_scan import AbortedRanges
from tidelog.storage.log.view.view_state import ViewSegment, ViewState, stop_reason
from tidelog.storage.segment.file_names import FileKind
from tidelog.storage.segment.resync import next_sound_batch
from tidelog.storage.segment.segment_reader import CHUNK_BYTES, Chunk, SegmentReader

_RETRIES = 5
_FIRST_CHUNK_BYTES = 64 * 1024


class CorruptPolicy(enum.StrEnum):
    """The action of a read at a batch that contradicts itself."""

    FAIL = "fail"
    SKIP = "skip"


class Rows(NamedTuple):
    """Complete batches that a read wants. ``buffer[0]`` lies at ``base_position`` of the file ``path``."""

    buffer: memoryview
    table: BatchTable
    base_position: int
    path: Path

    @property
    def segment_offset(self) -> int:
        """The base offset of the file's segment."""
        return int(self.path.name.partition(".")[0])

    def batch_at(self, position: int, size: int) -> memoryview:
        """Return ``size`` bytes from a position of the file on."""
        return self.buffer[position - self.base_position :][:size]


@dataclass(slots=True)
class ScanStats:
    """The work of a stream so far. The ``skipped`` fields count corrupt ranges and bytes."""

    segments: int = 0
    batches: int = 0
    bytes: int = 0
    skipped_ranges: int = 0
    skipped_bytes: int = 0

    def count(self, skipped: SkippedRange) -> None:
        self.skipped_ranges += 1
        self.skipped_bytes += skipped.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRange:
    """Bytes that a read left out as corrupt. ``offset`` is the first offset whose record may be among them.

    It may be below the start of a read that begins within the damage.
    """

    path: Path
    position: int
    size_bytes: int
    offset: int
    reason: str


OnSkipped = Callable[[SkippedRange], None]

OnLost = Callable[[str], None]
"""Takes a sentence about records that were removed before they were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """Offsets ``[start, end)``. Batches without wanted records are left out."""

    start: int
    end: int
    aborted: AbortedRanges | None = None
    """Transactions whose data batches are left out (read_committed)."""
    control: bool = False
    """Control batches are wanted."""


class StateSource(Protocol):
    """The source of a stream's segments."""

    @property
    def fs(self) -> FileSystem: ...

    @property
    def directory(self) -> Path: ...

    @property
    def state(self) -> ViewState: ...

    def refresh(self) -> ViewState: ...


class _CorruptError(Exception):
    """An inconsistency at a position of the current segment. Internal."""

    def __init__(self, position: int, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.offset = offset
        self.reason = reason


class RowStream:
    def __init__(
        self,
        source: StateSource,
        wanted: ReadRange,
        *,
        on_corrupt: CorruptPolicy = CorruptPolicy.FAIL,
        on_skipped: OnSkipped | None = None,
        on_lost: OnLost | None = None,
        verify_crc: bool = True,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self.next_offset = wanted.start
        """The first offset that was neither delivered nor skipped yet."""
        self.stats = ScanStats()
        self._source = source
        self._wanted = wanted
        self._on_corrupt = on_corrupt
        self._on_skipped = on_skipped
        self._on_lost = on_lost
        self._verify_crc = verify_crc
        self._chunk_bytes = chunk_bytes
        self._retries = 0
        self._seen_to = wanted.start
        """The offset after the last valid batch seen in the segment, wanted or not."""

    def __iter__(self) -> Iterator[Rows]:
        """Yield rows up to the range's end. Raise CorruptRecordError, or OffsetOutOfRangeError for removed records."""
        state = self._source.state
        segment = state.segments.floor_or_first(self.next_offset)
        while segment is not None and self.next_offset < self._wanted.end:
            try:
                yield from self._segment(state, segment)
            except FileMissingError as missing:
                state, segment = self._fresh(state, missing)
            except _CorruptError as corrupt:
                if not self._may_retry(state):
                    raise CorruptRecordError(
                        corrupt.reason,
                        path=segment.files.path(self._source.directory, FileKind.LOG),
                        position=corrupt.position,
                        offset=corrupt.offset,
                    ) from None
                state, segment = self._fresh(state)
            else:
                self._retries = 0
                segment = state.segments.higher(segment.base_offset)
        if self.next_offset < self._wanted.end > state.log_end.message_offset:
            self._report_lost(f"the log was truncated to {state.log_end.message_offset} while it was read")
        self.next_offset = max(self.next_offset, self._wanted.end)

    def _may_retry(self, state: ViewState) -> bool:
        return state.condition is DirectoryCondition.HELD and self._retries < _RETRIES

    def _fresh(
        self, before: ViewState, missing: FileMissingError | None = None
    ) -> tuple[ViewState, ViewSegment | None]:
        """Return a fresh state and its segment for the next offset."""
        self._retries += 1
        if self._retries > _RETRIES:
            raise FileMissingError(
                f"a segment is missing after {_RETRIES} attempts", path=self._source.directory, offset=self.next_offset
            )
        try:
            state = self._source.refresh()
        except FileMissingError:
            if self._on_lost is None or self._source.fs.exists(self._source.directory):
                raise
            self._report_lost("the partition was deleted while it was read")
            return before, None
        if missing is not None and DirectoryCondition.HELD not in (before.condition, state.condition):
            raise missing  # no owner, so no process may have rolled, deleted or compacted
        if before.log_start <= self.next_offset < state.log_start:
            self._report_lost(f"records were deleted while they were read: the log starts at {state.log_start} now")
            self.next_offset = state.log_start
        return state, state.segments.floor_or_first(self.next_offset)

    def _report_lost(self, what: str) -> None:
        """Report removed records to ``on_lost``, or raise OffsetOutOfRangeError without it."""
        lost = OffsetOutOfRangeError(what, path=self._source.directory, offset=self.next_offset)
        if self._on_lost is None:
            raise lost
        self._on_lost(str(lost))

    def _segment(self, state: ViewState, segment: ViewSegment) -> Iterator[Rows]:
        """Yield the wanted rows of one segment. Raise _CorruptError for damage that must not be skipped."""
        following = state.segments.higher(segment.base_offset)
        end_offset = following.base_offset if following is not None else state.log_end.message_offset
        with segment.open(self._source.fs, self._source.directory) as reader:
            self.stats.segments += 1
            end = state.end_position(segment)
            position = reader.position_of(self.next_offset)
            self._seen_to = reader.base_offset
            while True:
                try:
                    yield from self._batches(reader, position, end, end_offset)
                    return
                except _CorruptError as corrupt:
                    position = self._position_after(corrupt, state, reader, end, end_offset)

    def _position_after(
        self, corrupt: _CorruptError, state: ViewState, reader: SegmentReader, end: int | None, end_offset: int
    ) -> int:
        """Return the position after damage. Raise it again if it affects this read and must not be skipped."""
        if self.next_offset == self._wanted.start:
            # A valid batch at or below the first wanted offset proves that the damage lies before the range.
            resumed = next_sound_batch(reader, corrupt.position, end, self._seen_to, self.next_offset + 1)
            if resumed is not None:
                return resumed
        if self._on_corrupt is CorruptPolicy.FAIL or self._may_retry(state):
            raise corrupt
        resumed = next_sound_batch(reader, corrupt.position, end, self.next_offset, end_offset)
        resumed = (reader.size if end is None else end) if resumed is None else resumed
        skipped = SkippedRange(
            path=reader.path,
            position=corrupt.position,
            size_bytes=resumed - corrupt.position,
            offset=self._seen_to,
            reason=corrupt.reason,
        )
        self.stats.count(skipped)
        if self._on_skipped is not None:
            self._on_skipped(skipped)
        return resumed

    def _batches(self, reader: SegmentReader, position: int, end: int | None, end_offset: int) -> Iterator[Rows]:
        last_offset = -1
        stop, stopped_at = Stop.END, position
        chunks = reader.chunks(
            position,
            end,
            verify_crc=self._verify_crc,
            chunk_bytes=self._chunk_bytes,
            # Many reads need few records only, so start small; a long read soon uses large chunks.
            first_chunk_bytes=None if self.stats.segments > 1 else _FIRST_CHUNK_BYTES,
        )
        for chunk in chunks:
            table = chunk.table
            stop, stopped_at = table.stop, table.end_position
            valid = valid_rows(table, last_offset, end_offset)
            if valid:
                last_offset = table.summary.last_offset if valid == len(table) else int(table.last_offset[valid - 1])
                self._seen_to = last_offset + 1
                yield from self._wanted_rows(reader.path, chunk, valid)
                if self.next_offset >= self._wanted.end:
                    return
            if valid < len(table):
                reason = fault_reason(table, valid, last_offset, end_offset)
                raise _CorruptError(int(table.position[valid]), self.next_offset, reason)
        if stop is not Stop.END or (end is not None and stopped_at < end):
            raise _CorruptError(
                stopped_at, self.next_offset, stop_reason(stop if stop is not Stop.END else Stop.PARTIAL)
            )

    def _wanted_rows(self, path: Path, chunk: Chunk, valid: int) -> Iterator[Rows]:
        """Yield the wanted rows among the first ``valid`` rows, and move ``next_offset``."""
        table = chunk.table.take(slice(0, valid))
        passed = table.summary.last_offset + 1
        if table.summary.first_offset < self.next_offset or passed > self._wanted.end:
            first = int(np.searchsorted(table.last_offset, self.next_offset))
            end = _rows_below(table, self._wanted.end)
            passed = self._wanted.end if end < valid else passed
            table = table.take(slice(first, max(first, end)))
        self.next_offset = max(self.next_offset, passed)
        self.stats.batches += len(table)
        self.stats.bytes += int(table.size.sum())
        table = self._without_unwanted(table)
        if len(table):
            yield Rows(chunk.buffer, table, chunk.base_position, path)

    def _without_unwanted(self, table: BatchTable) -> BatchTable:
        """Remove control batches and the data of aborted transactions, unless they are wanted."""
        attributes, aborted = table.summary.attributes, self._wanted.aborted
        unwanted = np.zeros(len(table), np.bool_)
        if attributes & CONTROL_FLAG and not self._wanted.control:
            unwanted |= table.is_control
        if attributes & TRANSACTIONAL_FLAG and aborted is not None:
            unwanted |= aborted.hits(table)
        return table.take(~unwanted) if unwanted.any() else table


def counted(rows: Iterable[Rows], advance: Advance) -> Iterator[Rows]:
    """Yield the rows, and pass the bytes of their batches to ``advance`` first."""
    for one in rows:
        advance(int(one.table.size.sum()))
        yield one


def valid_rows(table: BatchTable, last_offset: int, end_offset: int) -> int:
    """Return the number of leading valid rows; ``last_offset`` is the last one of the row before."""
    summary = table.summary
    if summary.sound and summary.first_offset > last_offset and summary.last_offset < end_offset:
        return len(table)
    valid = table.crc_ok & table.header_ok & (table.last_offset < end_offset)
    if len(table):
        valid[0] &= table.base_offset[0] > last_offset
        valid[1:] &= table.base_offset[1:] > table.last_offset[:-1]
    bad = np.flatnonzero(~valid)
    return int(bad[0]) if len(bad) else len(table)


def fault_reason(table: BatchTable, number: int, last_offset: int, end_offset: int) -> str:
    """Return a clause that describes the first invalid row."""
    row = table.row(number)
    before = int(table.last_offset[number - 1]) if number else last_offset
    if not row.crc_ok:
        return f"the CRC of a batch does not match (stored {row.crc:#010x})"
    if not row.header_ok:
        return "the header of a batch is inconsistent"
    if row.base_offset <= before:
        return f"a batch begins at offset {row.base_offset}, the previous one ended at {before}"
    return f"a batch ends at offset {row.last_offset}, the segment ends before {end_offset}"


def _rows_below(table: BatchTable, end: int) -> int:
    """Return the number of leading rows that may hold offsets below ``end``."""
    count = int(np.searchsorted(table.base_offset, end))
    if count < len(table) and table.magic[count] < 2 and table.codec[count]:
        # A compressed v0 or v1 message carries its last record's offset; its first record may still be below ``end``.
        first = int(table.last_offset[count - 1]) + 1 if count else 0
        count += first < end
    return count
