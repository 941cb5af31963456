"""A segment of a log for its writer: the ``.log`` and its three indexes.

It owns the files of one base offset. States: *open* (appends and reads) -> *inactive* (``on_become_inactive``: the last
time entry is written, the indexes are trimmed) -> *closed* (``close`` trims too) or *deleted*.

Files are opened at their first use, since a process may have ten thousand logs of a few segments each. The active
segment keeps its ``.log`` open after the first append. Other ``.log`` files and the indexes' mappings
(``mapped_index``) count in ``DESCRIPTOR_CACHE``. Sequential reads and recovery never open an index. The active
segment's indexes grow, to have room for more entries, at the first append.

The ``.log`` holds batches one after the other; their offsets lie within 31 bits above the base offset. A crash leaves a
``.log`` that may end in a partial batch or in zeros (up to ``segment.bytes`` with ``preallocate``). The indexes may
have preallocated zeros, or entries for batches that the ``.log`` lost; ``segment_recovery`` repairs them. Fsync order:
the log, then its indexes.

Thread rule: the caller of a change holds the partition's lock (there is no lock here). Any thread may use ``read``,
``translate_offset`` and lookups, up to the size that it saw. Source: Kafka's ``LogSegment`` (4.1).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable, SegmentEnd
from tidelog.model import LogOffsetMetadata, StorageError
from tidelog.model.offsets import MAX_RELATIVE_OFFSET
from tidelog.storage.fs import DESCRIPTOR_CACHE, File, FileSystem, end_sharing
from tidelog.storage.index import (
    AbortedTransactions,
    AbortedTxn,
    OffsetIndexWriter,
    OffsetPosition,
    TimeIndexWriter,
    TimestampOffset,
)
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, FileState, segment_file
from tidelog.storage.segment.index_builder import IndexBuilder
from tidelog.storage.segment.limits import MAX_SEGMENT_BYTES, SegmentLimits
from tidelog.storage.segment.segment_indexes import SegmentIndexes
from tidelog.storage.segment.segment_read import BatchPosition, SegmentRead, find_batch
from tidelog.storage.segment.segment_reader import Chunk, SegmentReader

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LOOK_UP_CHUNK_BYTES = 64 * 1024


class LogSegment(SegmentEnd):
    """A segment from ``create`` or, if its files exist, the constructor. Sizes are in bytes, timestamps in ms."""

    _file_or_none: File | None
    _indexes: SegmentIndexes
    _builder: IndexBuilder | None

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
        """The parameter ``size`` is the size of the ``.log``, if known."""
        self._fs = fs
        self._directory = directory
        self._state = FileState.LIVE
        found = fs.stat(segment_file(directory, base_offset, FileKind.LOG)).size if size is None else size
        super().__init__(base_offset, found, now_ms)
        self._preallocated = False
        self.roll_jitter_ms = random.randrange(limits.jitter_below_ms) if limits.jitter_below_ms else 0
        self._apply_limits(limits)
        self._indexes = SegmentIndexes(fs, directory, base_offset, max_index_bytes=limits.segment_index_bytes)

    @classmethod
    def create(
        cls, fs: FileSystem, directory: Path, base_offset: int, limits: SegmentLimits, *, now_ms: int
    ) -> LogSegment:
        """Create an empty segment; replace leftover files. Preallocate its indexes, and its ``.log`` if configured."""
        for kind in reversed(SEGMENT_KINDS):
            fs.remove(segment_file(directory, base_offset, kind), missing_ok=True)
        fs.open(segment_file(directory, base_offset, FileKind.LOG), create=True).close()
        segment = cls(fs, directory, base_offset, limits, now_ms=now_ms)
        segment.grow_indexes()
        segment._indexes.growing()
        segment.preallocate()
        return segment

    # --- properties ---

    @property
    def path(self) -> Path:
        """The path of the ``.log``."""
        return self.path_of(FileKind.LOG)

    @property
    def modified_ms(self) -> int:
        """The time of the last write to the ``.log``; a rewritten segment keeps the time of the replaced segments."""
        return self._fs.stat(self.path).mtime_ms

    def path_of(self, kind: FileKind) -> Path:
        return segment_file(self._directory, self.base_offset, kind, self._state)

    @property
    def _file(self) -> File:
        file = self._file_or_none
        while file is None:
            path = self.path
            file = self._fs.open(path, write=True)
            if path != self.path:  # renamed meanwhile: the old name may belong to another file now
                file.close()
                file = None
                continue
            self._file_or_none = file
            if not self._is_appended_to:
                DESCRIPTOR_CACHE.register(self)
        return file

    @property
    def _is_appended_to(self) -> bool:
        return self._indexes.grow and self._builder is not None

    def close_cached(self) -> None:
        """Drop the ``.log``, closed after its last reader, unless it gets appends; it is opened again if needed."""
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
        """The largest timestamp, or the modification time of the ``.log`` if no record has a timestamp."""
        largest = self.max_timestamp.timestamp
        return self.modified_ms if largest < 0 else largest

    def can_hold(self, offset: int) -> bool:
        """Return True if ``offset`` lies within 31 bits above the base offset."""
        return 0 <= offset - self.base_offset <= MAX_RELATIVE_OFFSET

    # --- appending ---

    def append(self, data: Buffer, table: BatchTable) -> int:
        """Write complete batches (``table`` has their rows); return the position of the first.

        Raise StorageError, with nothing written, if an offset or the size does not fit. If the write itself fails, the
        written part is truncated.
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

    def append_aborted(self, transaction: AbortedTxn) -> None:
        self._indexes.transactions.append(transaction)

    def has_room_for_set(self, table: BatchTable, now_ms: int) -> bool:
        """Return True if all batches of a set, appended at once, belong into this segment."""
        return not self._size or (bool(self._allowed(table, now_ms).all()) and self._indexes_take(table))

    def count_before_roll(self, table: BatchTable, now_ms: int) -> int:
        """Return the number of batches, appended one by one, that belong into this segment. 0 means that it must roll.

        An empty segment takes a first batch at any limit: a new segment would have the same limits.
        """
        fits = self._allowed(table, now_ms)
        fits[self._rows_before_full(table) :] = False
        if not self._size:
            fits[0] = True
        return len(fits) if fits.all() else int(np.argmin(fits))

    @property
    def roll_timestamp(self) -> int | None:
        """The largest timestamp of the first batch, the start of the time until a roll; None in an empty segment."""
        if self._roll_timestamp is None and self._size:
            first = next(self.chunks(0, verify_crc=False, chunk_bytes=_LOOK_UP_CHUNK_BYTES), None)
            if first is not None and len(first.table):
                self._roll_timestamp = int(first.table.max_timestamp[0])
        return self._roll_timestamp

    def on_become_inactive(self) -> bool:
        """Finish the segment after a roll: write the last time entry and trim the files.

        Return True if the indexes have unsynced writes, or the ``.log`` was trimmed.
        """
        is_trimmed = self._preallocated
        self._write_final_time_entry()
        self._indexes.trim()
        self._trim_log()
        if self._file_or_none is not None:
            DESCRIPTOR_CACHE.register(self)
        return is_trimmed or not self._indexes.are_synced

    def grow_indexes(self) -> None:
        """Become the active segment, whose indexes have room for more entries after the first append."""
        self._indexes.begin_to_grow()

    def preallocate(self) -> None:
        """Preallocate the ``.log`` of a new segment if ``preallocate`` is set."""
        if self._limits.preallocate:
            self._file.allocate(self._limits.segment_bytes)
            self._preallocated = True

    # --- reading ---

    def chunks(
        self, start_position: int, end_position: int | None = None, *, verify_crc: bool, chunk_bytes: int | None = None
    ) -> Iterator[Chunk]:
        """Yield chunks as ``SegmentReader.chunks`` does, through a separate descriptor."""
        options = {} if chunk_bytes is None else {"chunk_bytes": chunk_bytes}
        end = self._size if end_position is None else end_position
        with SegmentReader(self._fs, self._directory, self.base_offset, state=self._state) as reader:
            yield from reader.chunks(start_position, end, verify_crc=verify_crc, **options)

    def translate_offset(self, offset: int) -> BatchPosition | None:
        """Return the first batch whose last offset is at or above ``offset``; None past the end."""
        return find_batch(self._file, self.offset_index.lookup(offset).position, self._size, offset)

    def read(
        self, start_offset: int, *, max_bytes: int, max_position: int | None = None, min_one_message: bool = False
    ) -> SegmentRead | None:
        """Return the place of the batches from ``start_offset``, at most ``max_bytes``; None past the end.

        ``max_position`` limits the read; ``min_one_message`` extends ``max_bytes`` to the first batch. The end may lie
        inside a batch. Raise ValueError for a negative ``max_bytes``.
        """
        if max_bytes < 0:
            raise ValueError(f"max_bytes is {max_bytes}")
        found = self.translate_offset(start_offset)
        if found is None:
            return None
        wanted = max(max_bytes, found.size) if min_one_message else max_bytes
        end = self._size if max_position is None else min(max_position, self._size)
        return SegmentRead(
            start=LogOffsetMetadata(start_offset, self.base_offset, found.position),
            file=self._file,
            size=max(0, min(end - found.position, wanted)),
            first_entry_incomplete=0 < wanted < found.size,
        )

    def upper_bound_offset(self, found: SegmentRead) -> int | None:
        """Return the first indexed offset at or behind the end of a read, or None if the index has none."""
        start = OffsetPosition(found.start.message_offset, found.start.position_in_segment)
        entry = self.offset_index.upper_bound(start, found.size)
        return None if entry is None else entry.offset

    def read_next_offset(self) -> int:
        """Return the offset after the last batch (base offset if empty), with a walk from the last index entry."""
        position = self.offset_index.lookup(self.offset_index.last_offset).position
        end = self.base_offset
        for chunk in self.chunks(position, verify_crc=False):
            if len(chunk.table):
                end = int(chunk.table.last_offset[-1]) + 1
        return end

    def position_of_timestamp(self, timestamp_ms: int, start_offset: int) -> int:
        """Return the start of a search for the first record at or after both ``timestamp_ms`` and ``start_offset``."""
        entry = self.time_index.lookup(timestamp_ms)
        return self.offset_index.lookup(max(entry.offset, start_offset)).position

    def collect_aborted(self, start_offset: int, end_offset: int) -> AbortedTransactions:
        return self._indexes.transactions.collect(start_offset, end_offset)

    # --- truncating, flushing, closing ---

    def truncate_to(self, offset: int) -> int:
        """Truncate from the batch with ``offset`` on, with the index entries; return the number of removed bytes.

        Appends follow, so a ``.log`` with another name (a snapshot's) becomes a private copy, at any offset.
        """
        found = self.translate_offset(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self._indexes.transactions.truncate_to(offset)
        self.grow_indexes()
        size = self._size if found is None else found.position
        if end_sharing(self._fs, self.path, size):
            self._file_or_none = None  # it closes after its last reader
        elif size < self._size:
            self._file.truncate(size)
        cut, self._size = self._size - size, size
        if self._size == 0:
            self._roll_timestamp = None
        # Until here readers see the previous largest timestamp: the truncated time index may lack the remaining one.
        self._resume_builder(self._largest_timestamp())
        return cut

    def flush(self) -> None:
        """Fsync the log, then its indexes."""
        self.write_index_entries()
        self.sync()

    def write_index_entries(self) -> None:
        """Write the index entries that wait in memory."""
        self._indexes.write_pending()

    def sync(self) -> None:
        """Fsync the log, then the written part of its indexes; appends may run meanwhile."""
        self._file.sync()
        self._indexes.sync()

    def close(self) -> None:
        """Write the last time entry and trim the open files; idempotent."""
        self._write_final_time_entry()
        self._trim_log()
        self._indexes.close()
        self._file_or_none = None

    def close_handlers(self) -> None:
        """Close the files without changing them, after a disk failure or a fork; idempotent.

        The ``.log`` closes when its last user is gone: its descriptor number must not become another file's while a
        response is being sent from it.
        """
        self._indexes.close_handlers()
        self._file_or_none = None

    def delete(self) -> None:
        """Remove the files, the ``.log`` last: a crash in between leaves a segment, not orphaned indexes."""
        self.close_handlers()
        for kind in reversed(SEGMENT_KINDS):
            self._fs.remove(self.path_of(kind), missing_ok=True)

    def change_state(self, state: FileState) -> None:
        """Rename the files to another suffix; the ``.log`` last, so that it never lacks its indexes."""
        for kind in reversed(SEGMENT_KINDS):
            old = self.path_of(kind)
            if self._fs.exists(old):
                self._fs.rename(old, segment_file(self._directory, self.base_offset, kind, state))
        self.set_state(state)

    def set_state(self, state: FileState) -> None:
        """Use another suffix, which the files have or are about to get."""
        self._state = state
        self._indexes.set_names(self._directory, self._state)

    def update_limits(self, limits: SegmentLimits) -> None:
        """Use another size and age limit. The index interval and the index size stay as at the creation."""
        self._apply_limits(
            replace(
                limits,
                index_interval_bytes=self._limits.index_interval_bytes,
                segment_index_bytes=self._limits.segment_index_bytes,
            )
        )

    def set_directory(self, directory: Path) -> None:
        """Use the new path of the log's renamed directory."""
        self._directory = directory
        self._indexes.set_names(self._directory, self._state)

    # --- inside ---

    def _apply_limits(self, limits: SegmentLimits) -> None:
        self._limits = limits
        self._set_roll_limits(limits.segment_bytes, limits.max_segment_ms - self.roll_jitter_ms)

    def _allowed(self, table: BatchTable, now_ms: int) -> npt.NDArray[np.bool_]:
        """Return, for each batch, True if no limit but an index's is exceeded."""
        begin = self.roll_timestamp if self._size else int(table.max_timestamp[0])
        return self._rows_allowed(table.size, table.last_offset, table.max_timestamp, begin, now_ms)

    def _indexes_take(self, table: BatchTable) -> bool:
        """Return True if no index is full, or becomes full before the last entry of ``table`` appended at once."""
        rooms = self._index_rooms()
        if min(rooms) <= 0 or len(table) <= min(rooms):
            return min(rooms) > 0
        offered, taken = self._previewed(table)
        return not len(offered) or (len(offered) <= rooms[0] and int((taken < offered[-1]).sum()) < rooms[1])

    def _rows_before_full(self, table: BatchTable) -> int:
        """Return the number of batches that can be appended one by one before an index is full."""
        rooms = self._index_rooms()
        if min(rooms) <= 0 or len(table) <= min(rooms):
            return len(table) if min(rooms) > 0 else 0
        previewed = zip(self._previewed(table), rooms, strict=True)
        full = [int(made[room - 1]) for made, room in previewed if len(made) >= room]
        return int(np.searchsorted(table.position, min(full), side="right")) if full else len(table)

    def _index_rooms(self) -> tuple[int, int]:
        """Return the number of entries that the offset and the time index take before they are full."""
        offset_index, time_index = self._indexes.growing()
        return offset_index.max_entries - offset_index.entries, time_index.max_entries - 1 - time_index.entries

    def _previewed(self, table: BatchTable) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the positions (as in ``table``) of the batches that get an offset entry, and a time entry."""
        _, positions, timestamps, _ = self._index_builder().preview(table)
        before = np.concatenate(([self.time_index.last_entry.timestamp], timestamps[:-1]))
        return positions, positions[timestamps > before]

    def _index_builder(self) -> IndexBuilder:
        if self._builder is None:
            self._resume_builder(self.time_index.last_entry)
        assert self._builder is not None
        return self._builder

    def _resume_builder(self, largest: TimestampOffset) -> None:
        builder = IndexBuilder(self.base_offset, self._limits.index_interval_bytes)
        builder.resume(
            last_entry_offset=self.offset_index.last_offset if self.offset_index.entries else None,
            largest=largest,
        )
        self._builder = builder  # Last: readers take the largest timestamp from the builder as soon as it is set.

    def _largest_timestamp(self) -> TimestampOffset:
        """Return the last time entry, or the larger timestamp of a later batch."""
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
                    f"the offset does not lie within 31 bits above the base offset {self.base_offset}",
                    path=self.path,
                    position=start,
                    offset=offset,
                )
        if start + int(table.size.sum(dtype=np.int64)) > MAX_SEGMENT_BYTES:
            raise StorageError("a segment holds at most 2 GiB", path=self.path, position=start)
