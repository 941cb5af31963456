"""A segment that is being written to take the place of others: its files are named ``.cleaned`` until it does.

Owns those files of one base offset. State machine: *open* (``append``) -> *finished* (``finish``: indexes written, all
on the disk) or *discarded* (``discard``: no file is left). A crash leaves rubbish, which the next loading removes;
from *finished* on see ``segment_swap``.

The bytes go to the file as they come; the entries of its indexes wait in memory, 32 bytes for every
``index.interval.bytes`` of batches, and are written in one go. They are those that appending the batches one by one
would have made. A ``.txnindex`` is only made where there is something to put in.

Called by: the cleaner, the split of an open log's segment. Thread rule: one thread. Source: Kafka's
``LocalLog.createNewCleanedSegment`` and ``LogSegment.append``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tidelog.kernel import BatchTable
from tidelog.model import StorageError
from tidelog.storage.fs import FileSystem
from tidelog.storage.index import AbortedTransaction, encode_transactions
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, FileState, segment_file
from tidelog.storage.segment.index_builder import Entries, IndexBuilder, offset_index_bytes, time_index_bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_POSITION = 2**31 - 1


class FinishedDraft(Protocol):
    """What is there to be swapped in, whoever has written it: its files are beside the log, and on the disk."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def path(self) -> Path:
        """Of its ``.log``, as it is named now."""
        ...


class SegmentDraft:
    """``size`` in bytes."""

    def __init__(self, fs: FileSystem, directory: Path, base_offset: int, *, index_interval_bytes: int) -> None:
        """Leftovers of the same name are replaced."""
        self.base_offset = base_offset
        self.size = 0
        self._fs = fs
        self._directory = directory
        self._builder = IndexBuilder(base_offset, index_interval_bytes)
        self._entries: list[Entries] = []
        self._aborted: list[AbortedTransaction] = []
        for kind in SEGMENT_KINDS:
            fs.remove(self._path_of(kind), missing_ok=True)
        self._file = fs.open(self.path, create=True)

    @property
    def path(self) -> Path:
        return self._path_of(FileKind.LOG)

    def append(self, data: Buffer, table: BatchTable) -> None:
        """Write whole batches; ``table`` has their rows.

        OffsetOverflowError, with nothing written, where an offset is more than 31 bits above the base offset; other
        StorageErrors where the segment would pass 2 GiB, or the disk fails.
        """
        if not len(table):
            return
        if self.size + memoryview(data).nbytes > MAX_POSITION:
            raise StorageError("a segment holds at most 2 GiB", path=self.path, position=self.size)
        self._entries.append(self._builder.add(table, shift=self.size - int(table.position[0])))
        self.size += self._file.pwrite(data, self.size)

    def append_aborted(self, transaction: AbortedTransaction) -> None:
        """One whose marker lies in this segment; in order of their markers."""
        self._aborted.append(transaction)

    def finish(self, *, mtime_ms: int) -> None:
        """Write the indexes, sync all, close; the files pass for as old as ``mtime_ms``.

        InvalidOffsetError where a larger timestamp comes with a smaller offset.
        """
        contents = {
            FileKind.INDEX: offset_index_bytes(self.base_offset, self._entries),
            FileKind.TIME_INDEX: time_index_bytes(self.base_offset, self._entries, self._builder.largest),
        }
        if self._aborted:
            contents[FileKind.TXN_INDEX] = encode_transactions(self._aborted)
        self._file.sync()
        self._file.close()
        for kind, data in contents.items():
            with self._fs.open(self._path_of(kind), create=True) as file:
                if data:
                    file.pwrite(data, 0)
                file.sync()
        for kind in (FileKind.LOG, *contents):
            self._fs.set_mtime(self._path_of(kind), mtime_ms)
        self._fs.sync_dir(self._directory)

    def discard(self) -> None:
        """Remove what there is of it."""
        self.close()
        for kind in reversed(SEGMENT_KINDS):
            self._fs.remove(self._path_of(kind), missing_ok=True)

    def close(self) -> None:
        """Let go of the file, finished or not."""
        self._file.close()

    def _path_of(self, kind: FileKind) -> Path:
        return segment_file(self._directory, self.base_offset, kind, FileState.CLEANED)
