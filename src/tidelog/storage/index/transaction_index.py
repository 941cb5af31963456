"""``.txnindex``: the aborted transactions whose marker lies in this segment, so that a consumer can skip their records.

Layout: entries of 34 bytes, big-endian: version (int16, 0), producer id, first offset, last offset (the abort
marker's), last stable offset when the marker was written (int64 each). Last offsets ascend. The file exists only where
a transaction was aborted; entries are appended, never preallocated. A crash may leave part of an entry at the end.

TransactionIndexReader is pure, over bytes. TransactionIndexWriter owns a file, opened when it is needed.
Called by: segments, views, dump, verify. Thread rule: writing under the partition's lock, reading from any thread.
Source: Kafka's ``TransactionIndex`` and ``AbortedTxn`` (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from tidelog.model import IndexCorruptError, StorageError
from tidelog.storage.fs import File, FileSystem, read_whole, sync_whole

if TYPE_CHECKING:
    from typing_extensions import Buffer

_ENTRY = Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """``last_offset`` is that of the abort marker, ``last_stable_offset`` that of the log when it was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def to_bytes(self) -> bytes:
        return _ENTRY.pack(_VERSION, *self)


class AbortedTransactions(NamedTuple):
    """The answer for one segment; where it is not ``complete`` the next segment's index has to be asked too."""

    transactions: list[AbortedTransaction]
    complete: bool


class TransactionIndexReader:
    """The whole entries in the bytes of an index; IndexCorruptError while iterating, for a version above 0."""

    ENTRY_SIZE = _ENTRY.size

    def __init__(self, data: Buffer, base_offset: int, *, path: Path | None = None) -> None:
        self._data = memoryview(data).cast("B")
        self._base_offset = base_offset
        self._path = path

    def __len__(self) -> int:
        return len(self._data) // self.ENTRY_SIZE

    def __iter__(self) -> Iterator[AbortedTransaction]:
        whole = len(self) * self.ENTRY_SIZE
        for number, (version, *fields) in enumerate(_ENTRY.iter_unpack(self._data[:whole])):
            if version != _VERSION:
                raise IndexCorruptError(
                    f"an aborted transaction of version {version}, the highest known is {_VERSION}",
                    path=self._path,
                    position=number * self.ENTRY_SIZE,
                )
            yield AbortedTransaction(*fields)

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> AbortedTransactions:
        """Aborted transactions with records in ``[fetch_offset, upper_bound_offset)``.

        Complete once an entry's last stable offset reaches the upper bound: later markers' transactions begin at or
        after it.
        """
        found = []
        for transaction in self:
            if transaction.last_offset >= fetch_offset and transaction.first_offset < upper_bound_offset:
                found.append(transaction)
            if transaction.last_stable_offset >= upper_bound_offset:
                return AbortedTransactions(found, True)
        return AbortedTransactions(found, False)

    def sanity_check(self) -> None:
        """IndexCorruptError for an unknown version or a transaction that ended before the segment's base offset."""
        for number, transaction in enumerate(self):
            if transaction.last_offset < self._base_offset:
                raise IndexCorruptError(
                    f"an aborted transaction ends at {transaction.last_offset}, below the base offset"
                    f" {self._base_offset}",
                    path=self._path,
                    position=number * self.ENTRY_SIZE,
                )


class TransactionIndexWriter:
    def __init__(self, fs: FileSystem, path: Path, base_offset: int) -> None:
        """Nothing is created; an existing file is appended to."""
        self._fs = fs
        self._path = path
        self._base_offset = base_offset
        self._file: File | None = None
        self._last_offset: int | None = None
        self._dirty = False
        self._size = fs.stat(path).size if fs.exists(path) else None

    @property
    def path(self) -> Path:
        return self._path

    @property
    def exists(self) -> bool:
        return self._size is not None

    @property
    def size_bytes(self) -> int:
        return self._size or 0

    def append(self, transaction: AbortedTransaction) -> None:
        """Add an entry; ValueError unless its last offset is above that of the last one appended here."""
        if self._last_offset is not None and transaction.last_offset <= self._last_offset:
            raise ValueError(
                f"an aborted transaction ending at {transaction.last_offset} cannot follow one ending at"
                f" {self._last_offset}: {self._path}"
            )
        size = self._size or 0
        self._size = size + self._open().pwrite(transaction.to_bytes(), size)
        self._last_offset = transaction.last_offset
        self._dirty = True

    def transactions(self) -> list[AbortedTransaction]:
        return list(self._reader())

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> AbortedTransactions:
        """As TransactionIndexReader.collect."""
        return self._reader().collect(fetch_offset, upper_bound_offset)

    def sanity_check(self) -> None:
        """As TransactionIndexReader.sanity_check."""
        self._reader().sanity_check()

    def truncate_to(self, offset: int) -> None:
        """Drop the first entry whose marker lies at or above ``offset``, and all after it."""
        last: int | None = None
        for number, transaction in enumerate(self._reader()):
            if transaction.last_offset >= offset:
                self._cut(number * _ENTRY.size)
                self._last_offset = last
                return
            last = transaction.last_offset

    def reset(self) -> None:
        """Drop all entries; a file that exists stays, empty."""
        if self._size is not None:
            self._cut(0)
        self._last_offset = None

    def sync(self) -> None:
        """fsync what was written since the last time; needs no lock, as the other indexes' does."""
        if self._dirty:
            self._dirty = False
            try:
                sync_whole(self._fs, self._path)
            except StorageError:
                self._dirty = True
                raise

    def rename_to(self, path: Path) -> None:
        self._release()
        if self._size is not None:
            self._fs.rename(self._path, path)
        self._path = path

    def moved_to(self, path: Path) -> None:
        """Take over the new path of a file whose directory was renamed."""
        self._release()
        self._path = path

    def follow(self, path: Path) -> None:
        """The same from any thread: a file that is open stays open."""
        self._path = path

    def delete_if_exists(self) -> None:
        self._release()
        self._fs.remove(self._path, missing_ok=True)
        self._size = None

    def close(self) -> None:
        """Idempotent; a later call opens the file again."""
        self._release()

    def _reader(self) -> TransactionIndexReader:
        size = self._size
        data = b"" if not size else read_whole(self._fs, self._path)[:size]
        return TransactionIndexReader(data, self._base_offset, path=self._path)

    def _cut(self, size: int) -> None:
        self._open().truncate(size)
        self._size = size
        self._dirty = True

    def _open(self) -> File:
        if self._file is None:
            self._file = self._fs.open(self._path, create=True)
        return self._file

    def _release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def encode_transactions(transactions: Iterable[AbortedTransaction]) -> bytes:
    """The bytes of a whole ``.txnindex``."""
    return b"".join(transaction.to_bytes() for transaction in transactions)
