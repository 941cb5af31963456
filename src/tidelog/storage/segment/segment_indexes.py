"""The three indexes of a segment for its writer; each is opened at its first use.

It owns the ``.index``, the ``.timeindex`` and, if a transaction was aborted, the ``.txnindex`` of a base offset. The
active segment's indexes *grow*: from the first append on, they have room for more entries. The indexes of other
segments are trimmed. For the state after a crash see the classes of the indexes.

Thread rule: any thread may open, search and sync an index; if several open it at once, one result is kept. Any other
change needs the partition's lock. Source: Kafka's ``LazyIndex``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tidelog.storage.fs import FileSystem, sync_whole
from tidelog.storage.index import MappedIndex, OffsetIndexWriter, TimeIndexWriter, TransactionIndexWriter
from tidelog.storage.segment.file_names import FileKind, FileState, segment_file

_I = TypeVar("_I", OffsetIndexWriter, TimeIndexWriter, TransactionIndexWriter)


class SegmentIndexes:
    def __init__(self, fs: FileSystem, directory: Path, base_offset: int, *, max_index_bytes: int) -> None:
        self._fs = fs
        self._directory = directory
        self._base_offset = base_offset
        self._state = FileState.LIVE
        self._max_index_bytes = max_index_bytes
        self._offset: dict[None, OffsetIndexWriter] = {}
        self._time: dict[None, TimeIndexWriter] = {}
        self._txn: dict[None, TransactionIndexWriter] = {}
        """Each dict holds the index once it is open; the atomic ``setdefault`` lets several threads agree on one."""
        self._growing: tuple[OffsetIndexWriter, TimeIndexWriter] | None = None
        self.grow = False
        """True if they belong to the active segment."""

    @property
    def offset(self) -> OffsetIndexWriter:
        index = self._offset.get(None)
        return self._opened(FileKind.INDEX, self._offset, self._open_offset) if index is None else index

    @property
    def time(self) -> TimeIndexWriter:
        index = self._time.get(None)
        return self._opened(FileKind.TIME_INDEX, self._time, self._open_time) if index is None else index

    @property
    def transactions(self) -> TransactionIndexWriter:
        index = self._txn.get(None)
        return self._opened(FileKind.TXN_INDEX, self._txn, self._open_transactions) if index is None else index

    def growing(self) -> tuple[OffsetIndexWriter, TimeIndexWriter]:
        """Return the offset and the time index for appends, with room for more entries in the active segment."""
        if self._growing is None:
            self._growing = (self.offset, self.time)
            if self.grow:
                self._resize()
        return self._growing

    def begin_to_grow(self) -> None:
        self.grow = True
        self._growing = None
        self._resize()

    def trim(self) -> None:
        """Trim the indexes: they no longer grow."""
        for index in self._mapped():
            index.trim_to_valid_size()
        self.grow = False
        self._growing = None

    def write_pending(self) -> None:
        """Write the entries that wait in memory."""
        for index in self._mapped():
            index.write_pending()

    @property
    def are_synced(self) -> bool:
        """True if no open index has unsynced writes."""
        mapped = all(index.is_synced for index in self._mapped())
        return mapped and all(index.is_synced for index in self._txn.values())

    def sync(self) -> None:
        """Fsync all written entries, including those written before the index was opened here."""
        for kind, index in ((FileKind.INDEX, self._offset.get(None)), (FileKind.TIME_INDEX, self._time.get(None))):
            if index is not None:
                index.sync()
            elif self._fs.exists(self._path_of(kind)):
                sync_whole(self._fs, self._path_of(kind))
        for txn_index in self._txn.values():
            txn_index.sync()

    def close(self) -> None:
        """Trim and close the open indexes; idempotent."""
        for index in self._mapped():
            index.close()
        self._close_transactions()

    def close_handlers(self) -> None:
        """Close the indexes without changing the files; idempotent."""
        for index in self._mapped():
            index.close_without_trim()
        self._close_transactions()

    def set_names(self, directory: Path, state: FileState) -> None:
        """Use the new names of the files."""
        self._directory = directory
        self._state = state
        for kind, indexes in (
            (FileKind.INDEX, self._offset),
            (FileKind.TIME_INDEX, self._time),
            (FileKind.TXN_INDEX, self._txn),
        ):
            for index in indexes.values():
                index.set_path_and_write(self._path_of(kind))

    def _opened(self, kind: FileKind, indexes: dict[None, _I], open_at: Callable[[Path], _I]) -> _I:
        """Open an index and keep it, under the current name of its file.

        A renamed file may leave its old name to a new file, whose index must not be kept. A rename first sets the new
        names and then updates the kept indexes. This loop does the reverse, so at least one side sees the other.
        """
        while True:
            path = self._path_of(kind)
            opened = open_at(path)
            if path != self._path_of(kind):
                continue
            index = indexes.setdefault(None, opened)
            while index.path != (path := self._path_of(kind)):
                index.set_path(path)
            return index

    def _open_offset(self, path: Path) -> OffsetIndexWriter:
        return OffsetIndexWriter(self._fs, path, self._base_offset, max_index_bytes=self._max_index_bytes)

    def _open_time(self, path: Path) -> TimeIndexWriter:
        return TimeIndexWriter(self._fs, path, self._base_offset, max_index_bytes=self._max_index_bytes)

    def _open_transactions(self, path: Path) -> TransactionIndexWriter:
        return TransactionIndexWriter(self._fs, path, self._base_offset)

    def _path_of(self, kind: FileKind) -> Path:
        return segment_file(self._directory, self._base_offset, kind, self._state)

    def _resize(self) -> None:
        for index in self._mapped():
            index.resize(self._max_index_bytes)

    def _mapped(self) -> tuple[MappedIndex, ...]:
        return (*self._offset.values(), *self._time.values())

    def _close_transactions(self) -> None:
        for index in self._txn.values():
            index.close()
