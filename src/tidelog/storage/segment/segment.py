"""One segment of a log as its writer has it: the ``.log`` and its three indexes.

Owns the files of one base offset. State machine: *open* (appended to, read) -> *inactive* (``on_become_inactive``: the
last time entry written, indexes trimmed) -> *closed* (``close`` trims too) or *deleted*.

Nothing is opened before it is needed: a process may have ten thousand logs of a few segments each. The open segment
keeps its ``.log`` once it was appended to; of the others it is one of ``KEPT_OPEN``, as the indexes' mappings are
(``mapped_index``). A segment that is only read sequentially or recovered never opens an index, and those of the open
one grow, to have room for more entries, with the first append.

Layout: batches one behind the other in ``.log``; offsets lie within 31 bits above the base offset. What a crash leaves:
a ``.log`` that may end in part of a batch or in zeros (with ``preallocate`` up to ``segment.bytes``), indexes with
entries of later batches than the ``.log`` has, or preallocated zeros; ``segment_recovery`` makes them whole again.
fsync order: the log, then its indexes.

Thread rule: changes under the partition's lock (nothing here locks); ``read``, ``translate_offset`` and look-ups from
any thread, up to the size they saw. Source: Kafka's ``LogSegment`` (4.1).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable
from tidelog.model import LogOffsetMetadata, StorageError
from tidelog.storage.fs import KEPT_OPEN, File, FileSystem
from tidelog.storage.index import (
    AbortedTransaction,
    AbortedTransactions,
    OffsetIndexWriter,
    OffsetPosition,
    TimeIndexWriter,
    TimestampOffset,
)
from tidelog.storage.segment.batch_search import find_batch
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, FileState, segment_file
from tidelog.storage.segment.index_builder import IndexBuilder
from tidelog.storage.segment.limits import SegmentLimits
from tidelog.storage.segment.segment_indexes import SegmentIndexes
from tidelog.storage.segment.segment_read import BatchPosition, SegmentRead
from tidelog.storage.segment.segment_reader import Chunk, SegmentReader

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_RELATIVE_OFFSET = 2**31 - 1
MAX_POSITION = 2**31 - 1
_LOOK_UP_CHUNK_BYTES = 64 * 1024


class LogSegment:
    """Made by ``open`` (the file exists) or ``create``. Sizes and positions in bytes, timestamps in ms."""

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        base_offset: int,
        limits: SegmentLimits,
        *,
        now_ms: int,
        size: int | None = None,
    ) -> None:
        """``size``: of the ``.log``, where it is known."""
        self._fs = fs
        self._directory = directory
        self._base_offset = base_offset
        self._limits = limits
        self._state = FileState.LIVE
        self._file_or_none: File | None = None
        self._size = fs.stat(self.path).size if size is None else size
        self._preallocated = False
        self._created_ms = now_ms
        self._roll_timestamp: int | None = None
        self.roll_jitter_ms = random.randrange(limits.jitter_below_ms) if limits.jitter_below_ms else 0
        self._indexes = SegmentIndexes(fs, directory, base_offset, max_index_bytes=limits.segment_index_bytes)
        self._builder: IndexBuilder | None = None

    @classmethod
    def create(
        cls, fs: FileSystem, directory: Path, base_offset: int, limits: SegmentLimits, *, now_ms: int
    ) -> LogSegment:
        """A new, empty segment with preallocated indexes, with ``preallocate`` with room for its batches. Left-overs
        of the same name are replaced."""
        for kind in reversed(SEGMENT_KINDS):
            fs.remove(segment_file(directory, base_offset, kind), missing_ok=True)
        fs.open(segment_file(directory, base_offset, FileKind.LOG), create=True).close()
        segment = cls(fs, directory, base_offset, limits, now_ms=now_ms)
        segment.grow_indexes()
        segment._indexes.growing()
        segment.make_room()
        return segment

    # --- what it is ---

    @property
    def base_offset(self) -> int:
        return self._base_offset

    @property
    def size(self) -> int:
        """Bytes of the batches."""
        return self._size

    @property
    def path(self) -> Path:
        """The ``.log``."""
        return self.path_of(FileKind.LOG)

    @property
    def modified_ms(self) -> int:
        """When the ``.log`` was written to last; of a rewritten one, when those that it replaced were."""
        return self._fs.stat(self.path).mtime_ms

    def path_of(self, kind: FileKind) -> Path:
        return segment_file(self._directory, self._base_offset, kind, self._state)

    @property
    def _file(self) -> File:
        file = self._file_or_none
        while file is None:
            path = self.path
            file = self._fs.open(path, write=True)
            if path != self.path:  # renamed meanwhile: this may be the file that has its old name now
                file.close()
                file = None
                continue
            self._file_or_none = file
            if not self._is_appended_to:
                KEPT_OPEN.opened(self)
        return file

    @property
    def _is_appended_to(self) -> bool:
        return self._indexes.grow and self._builder is not None

    def let_go(self) -> None:
        """Have the ``.log`` closed, once nobody reads it, unless it is appended to; it is opened again when needed."""
        if not self._is_appended_to:
            self._file_or_none = None

    @property
    def offset_index(self) -> OffsetIndexWriter:
        return self._indexes.offset

    @property
    def time_index(self) -> TimeIndexWriter:
        return self._indexes.time

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp (-1: none) and the last offset of the first batch that has it."""
        builder = self._builder
        return self.time_index.last_entry if builder is None else builder.largest

    @property
    def time_ms(self) -> int:
        """The largest timestamp; where no record has one, the last change of the ``.log``."""
        largest = self.max_timestamp.timestamp
        return self.modified_ms if largest < 0 else largest

    def can_hold(self, offset: int) -> bool:
        """Whether ``offset`` lies within 31 bits above the base offset."""
        return 0 <= offset - self._base_offset <= MAX_RELATIVE_OFFSET

    # --- appending ---

    def append(self, data: Buffer, table: BatchTable) -> int:
        """Write whole batches; ``table`` has their rows. The position they begin at.

        StorageError, with nothing written, if an offset or the size does not fit; if the write itself fails, what it
        left is cut off again.
        """
        start = self._size
        self._require_fit(table, start)
        if start == 0:
            self._roll_timestamp = int(table.max_timestamp[0])
        try:
            written = self._file.pwrite(data, start)
        except StorageError:
            self._file.truncate(start)
            raise
        self._size = start + written
        entries = self._index_builder().add(table, shift=start - int(table.position[0]))
        offset_index, time_index = self._indexes.growing()
        for offset, position, timestamp, offset_of_timestamp in entries.T.tolist():
            offset_index.append(offset, position)
            time_index.maybe_append(timestamp, offset_of_timestamp)
        return start

    def append_one(self, data: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        """``append`` for one batch of ``size`` bytes that is known to fit; without a table, for speed."""
        start, builder, file = self._size, self._builder, self._file_or_none
        if builder is None or file is None:
            builder, file = self._index_builder(), self._file
        try:
            file.pwrite(data, start)
        except StorageError:
            file.truncate(start)
            raise
        self._size = start + size
        if start == 0:
            self._roll_timestamp = max_timestamp
        if builder.add_one(size, last_offset, max_timestamp):
            offset_index, time_index = self._indexes.growing()
            offset_index.append(last_offset, start)
            time_index.maybe_append(*builder.largest)

    def append_aborted(self, transaction: AbortedTransaction) -> None:
        self._indexes.transactions.append(transaction)

    def takes_entries(self, table: BatchTable) -> bool:
        """Whether no index is full, nor gets full before the last entry that ``table`` makes, appended at once."""
        rooms = self._index_rooms()
        if min(rooms) <= 0 or len(table) <= min(rooms):
            return min(rooms) > 0
        offered, taken = self._foreseen(table)
        return not len(offered) or (len(offered) <= rooms[0] and int((taken < offered[-1]).sum()) < rooms[1])

    def rows_before_full(self, table: BatchTable) -> int:
        """How many of the batches can be appended one by one before an index is full."""
        rooms = self._index_rooms()
        if min(rooms) <= 0 or len(table) <= min(rooms):
            return len(table) if min(rooms) > 0 else 0
        foreseen = zip(self._foreseen(table), rooms, strict=True)
        full = [int(made[room - 1]) for made, room in foreseen if len(made) >= room]
        return int(np.searchsorted(table.position, min(full), side="right")) if full else len(table)

    def takes(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether one more batch belongs into this segment that is not empty; ``roll`` has the rule in words."""
        begin = self._roll_timestamp
        if begin is None or not self._size:
            return False
        waited = max_timestamp - begin if begin >= 0 else now_ms - self._created_ms
        offset_index, time_index = self._indexes.growing()
        return (
            self._size + size <= self._limits.segment_bytes
            and waited <= self._limits.max_segment_ms - self.roll_jitter_ms
            and last_offset - self._base_offset <= MAX_RELATIVE_OFFSET
            and not offset_index.is_full
            and not time_index.is_full
        )

    @property
    def created_ms(self) -> int:
        return self._created_ms

    @property
    def roll_timestamp(self) -> int | None:
        """Largest timestamp of the first batch, from which the time to roll is counted; None in an empty segment."""
        if self._roll_timestamp is None and self._size:
            first = next(self.chunks(0, verify_crc=False, chunk_bytes=_LOOK_UP_CHUNK_BYTES), None)
            if first is not None and len(first.table):
                self._roll_timestamp = int(first.table.max_timestamp[0])
        return self._roll_timestamp

    def on_become_inactive(self) -> None:
        """After a roll: the largest timestamp goes into the time index, and the files are trimmed."""
        self._write_final_time_entry()
        self._indexes.trim()
        self._trim_log()
        if self._file_or_none is not None:
            KEPT_OPEN.opened(self)

    def grow_indexes(self) -> None:
        """Be the open segment, whose indexes have room for more entries once it is appended to."""
        self._indexes.begin_to_grow()

    def make_room(self) -> None:
        """With ``preallocate``: for the batches of a new segment."""
        if self._limits.preallocate:
            self._file.allocate(self._limits.segment_bytes)
            self._preallocated = True

    # --- reading ---

    def chunks(
        self, start_position: int, end_position: int | None = None, *, verify_crc: bool, chunk_bytes: int | None = None
    ) -> Iterator[Chunk]:
        """As ``SegmentReader.chunks``, through a descriptor of its own."""
        options = {} if chunk_bytes is None else {"chunk_bytes": chunk_bytes}
        end = self._size if end_position is None else end_position
        with SegmentReader(self._fs, self._directory, self._base_offset, state=self._state) as reader:
            yield from reader.chunks(start_position, end, verify_crc=verify_crc, **options)

    def translate_offset(self, offset: int) -> BatchPosition | None:
        """The first batch whose last offset is at or above ``offset``; None past the end."""
        return find_batch(self._file, self.offset_index.lookup(offset).position, self._size, offset)

    def read(
        self, start_offset: int, *, max_bytes: int, max_position: int | None = None, min_one_message: bool = False
    ) -> SegmentRead | None:
        """Where the batches from ``start_offset`` on lie, at most ``max_bytes`` of them; None past the end.

        ``max_position`` bounds the read; ``min_one_message`` widens ``max_bytes`` to the first batch. ValueError for a
        negative ``max_bytes``. The end may cut a batch in two.
        """
        if max_bytes < 0:
            raise ValueError(f"max_bytes is {max_bytes}")
        found = self.translate_offset(start_offset)
        if found is None:
            return None
        wanted = max(max_bytes, found.size) if min_one_message else max_bytes
        end = self._size if max_position is None else min(max_position, self._size)
        return SegmentRead(
            start=LogOffsetMetadata(start_offset, self._base_offset, found.position),
            file=self._file,
            size=max(0, min(end - found.position, wanted)),
            first_entry_incomplete=0 < wanted < found.size,
        )

    def upper_bound_offset(self, found: SegmentRead) -> int | None:
        """The first indexed offset at or behind the end of a read; None where the index ends before."""
        start = OffsetPosition(found.start.message_offset, found.start.position_in_segment)
        entry = self.offset_index.upper_bound(start, found.size)
        return None if entry is None else entry.offset

    def read_next_offset(self) -> int:
        """The offset after the last batch; the base offset of an empty segment. Walks from the last index entry on."""
        position = self.offset_index.lookup(self.offset_index.last_offset).position
        end = self._base_offset
        for chunk in self.chunks(position, verify_crc=False):
            if len(chunk.table):
                end = int(chunk.table.last_offset[-1]) + 1
        return end

    def position_of_timestamp(self, timestamp_ms: int, start_offset: int) -> int:
        """Where a search for the first record at or after ``timestamp_ms`` and ``start_offset`` begins."""
        entry = self.time_index.lookup(timestamp_ms)
        return self.offset_index.lookup(max(entry.offset, start_offset)).position

    def collect_aborted(self, start_offset: int, end_offset: int) -> AbortedTransactions:
        return self._indexes.transactions.collect(start_offset, end_offset)

    # --- cutting, flushing, ending ---

    def truncate_to(self, offset: int) -> int:
        """Cut the batches from the one that holds ``offset`` on, with their index entries. The bytes cut."""
        found = self.translate_offset(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self._indexes.transactions.truncate_to(offset)
        self.grow_indexes()
        cut = 0
        if found is not None:
            cut = self._size - found.position
            self._file.truncate(found.position)
            self._size = found.position
        if self._size == 0:
            self._roll_timestamp = None
        # Until then readers have the largest timestamp of before: an index that was cut may end below what is left.
        self._resume_builder(self._largest_timestamp())
        return cut

    def flush(self) -> None:
        """fsync the log, then its indexes."""
        self.write_index_entries()
        self.sync()

    def write_index_entries(self) -> None:
        """Those that wait in memory."""
        self._indexes.write_pending()

    def sync(self) -> None:
        """fsync the log, then what was written of its indexes; appends may go on meanwhile."""
        self._file.sync()
        self._indexes.sync()

    def close(self) -> None:
        """Write the last time entry, trim the files that are open; idempotent."""
        self._write_final_time_entry()
        self._trim_log()
        self._indexes.close()
        self._file_or_none = None

    def close_handlers(self) -> None:
        """Let go of the files as they are, after a disk failure or a fork; idempotent.

        The ``.log`` is closed when nobody has it any more: its number must not become another file's while an answer
        is being sent from it.
        """
        self._indexes.close_handlers()
        self._file_or_none = None

    def delete(self) -> None:
        """Remove the files, the ``.log`` last: a crash in between leaves a segment, not orphaned indexes."""
        self.close_handlers()
        for kind in reversed(SEGMENT_KINDS):
            self._fs.remove(self.path_of(kind), missing_ok=True)

    def change_state(self, state: FileState) -> None:
        """Rename the files to another suffix; the indexes first, so that a ``.log`` never waits for its indexes."""
        for kind in reversed(SEGMENT_KINDS):
            old = self.path_of(kind)
            if self._fs.exists(old):
                self._fs.rename(old, segment_file(self._directory, self._base_offset, kind, state))
        self.renamed(state)

    def renamed(self, state: FileState) -> None:
        """Take over another suffix, which the files have, or are about to get."""
        self._state = state
        self._indexes.moved_to(self._directory, self._state)

    def update_limits(self, limits: SegmentLimits) -> None:
        """Go by another size and age; the interval and the size of the indexes stay as the segment was made with."""
        self._limits = replace(
            limits,
            index_interval_bytes=self._limits.index_interval_bytes,
            segment_index_bytes=self._limits.segment_index_bytes,
        )

    def moved_to(self, directory: Path) -> None:
        """Take over the new path of the log's directory, which was renamed."""
        self._directory = directory
        self._indexes.moved_to(self._directory, self._state)

    # --- inside ---

    def _index_rooms(self) -> tuple[int, int]:
        """How many entries the offset and the time index take before they are full."""
        offset_index, time_index = self._indexes.growing()
        return offset_index.max_entries - offset_index.entries, time_index.max_entries - 1 - time_index.entries

    def _foreseen(self, table: BatchTable) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Positions, as in ``table``, of the batches that get an entry in the offset and in the time index."""
        _, positions, timestamps, _ = self._index_builder().foresee(table)
        before = np.concatenate(([self.time_index.last_entry.timestamp], timestamps[:-1]))
        return positions, positions[timestamps > before]

    def _index_builder(self) -> IndexBuilder:
        if self._builder is None:
            self._resume_builder(self.time_index.last_entry)
        assert self._builder is not None
        return self._builder

    def _resume_builder(self, largest: TimestampOffset) -> None:
        builder = IndexBuilder(self._base_offset, self._limits.index_interval_bytes)
        builder.resume(
            last_entry_offset=self.offset_index.last_offset if self.offset_index.entries else None,
            largest=largest,
        )
        self._builder = builder  # Last: readers take the largest timestamp from it as soon as it is there.

    def _largest_timestamp(self) -> TimestampOffset:
        """The last time entry, or a larger timestamp of a batch behind it."""
        best = self.time_index.last_entry
        for chunk in self.chunks(self.offset_index.lookup(best.offset).position, verify_crc=False):
            if len(chunk.table):
                row = int(np.argmax(chunk.table.max_timestamp))
                if int(chunk.table.max_timestamp[row]) > best.timestamp:
                    best = TimestampOffset(int(chunk.table.max_timestamp[row]), int(chunk.table.last_offset[row]))
        return best

    def _write_final_time_entry(self) -> None:
        if self._builder is not None:
            self._indexes.growing()[1].maybe_append(*self._builder.largest, skip_full_check=True)

    def _trim_log(self) -> None:
        if self._preallocated:
            self._file.truncate(self._size)
            self._preallocated = False

    def _require_fit(self, table: BatchTable, start: int) -> None:
        for offset in (int(table.last_offset.min()), int(table.last_offset.max())):
            if not self.can_hold(offset):
                raise StorageError(
                    f"the offset does not lie within 31 bits above the base offset {self._base_offset}",
                    path=self.path,
                    position=start,
                    offset=offset,
                )
        if start + int(table.size.sum(dtype=np.int64)) > MAX_POSITION:
            raise StorageError("a segment holds at most 2 GiB", path=self.path, position=start)
