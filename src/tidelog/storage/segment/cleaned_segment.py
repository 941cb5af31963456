"""A segment that will replace others; until then its files are named ``.cleaned``.

It owns those files for one base offset. States: *open* (``append``) -> *finished* (``finish``: indexes written, all
files fsynced) or *discarded* (``discard``: no file is left). A crash leaves files that the next loading removes; for
crashes after *finished* see ``segment_swap``.

Batches are written at once. Index entries wait in memory, 32 bytes for every ``index.interval.bytes`` of batches, and
are written together. They equal the entries of appending the batches one by one. A ``.txnindex`` is only created if it
has entries.

Thread rule: one thread. Source: Kafka's ``LocalLog.createNewCleanedSegment`` and ``LogSegment.append``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tidelog.kernel import BatchTable
from tidelog.model import StorageError
from tidelog.storage.fs import FileSystem
from tidelog.storage.index import AbortedTxn, encode_transactions
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, FileState, segment_file
from tidelog.storage.segment.index_builder import Entries, IndexBuilder, offset_index_bytes, time_index_bytes
from tidelog.storage.segment.limits import MAX_SEGMENT_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer


class FinishedSegment(Protocol):
    """A finished segment of any writer: its files are in the log's directory and fsynced."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def path(self) -> Path:
        """The current path of its ``.log``."""
        ...


class CleanedSegment:
    """An unfinished segment; ``size`` is in bytes."""

    def __init__(self, fs: FileSystem, directory: Path, base_offset: int, *, index_interval_bytes: int) -> None:
        """Create the ``.log``; leftover files of the same name are replaced."""
        self.base_offset = base_offset
        self.size = 0
        self._fs = fs
        self._directory = directory
        self._builder = IndexBuilder(base_offset, index_interval_bytes)
        self._entries: list[Entries] = []
        self._aborted: list[AbortedTxn] = []
        for kind in SEGMENT_KINDS:
            fs.remove(self._path_of(kind), missing_ok=True)
        self._file = fs.open(self.path, create=True)

    @property
    def path(self) -> Path:
        return self._path_of(FileKind.LOG)

    def append(self, data: Buffer, table: BatchTable) -> None:
        """Write complete batches; ``table`` has their rows.

        Raise OffsetOverflowError, with nothing written, if an offset is more than 31 bits above the base offset. Raise
        StorageError if the segment would pass 2 GiB, or if the disk fails.
        """
        if not len(table):
            return
        if self.size + memoryview(data).nbytes > MAX_SEGMENT_BYTES:
            raise StorageError("a segment holds at most 2 GiB", path=self.path, position=self.size)
        self._entries.append(self._builder.add(table, shift=self.size - int(table.position[0])))
        self.size += self._file.pwrite(data, self.size)

    def append_aborted(self, transaction: AbortedTxn) -> None:
        """Add a transaction whose marker lies in this segment. Transactions come in marker order."""
        self._aborted.append(transaction)

    def finish(self, *, mtime_ms: int) -> None:
        """Write the indexes, fsync and close all files, and set their modification time to ``mtime_ms``.

        Raise InvalidOffsetError if a larger timestamp has a smaller offset.
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
        """Close and remove its files."""
        self.close()
        for kind in reversed(SEGMENT_KINDS):
            self._fs.remove(self._path_of(kind), missing_ok=True)

    def close(self) -> None:
        """Close the file, finished or not."""
        self._file.close()

    def _path_of(self, kind: FileKind) -> Path:
        return segment_file(self._directory, self.base_offset, kind, FileState.CLEANED)
