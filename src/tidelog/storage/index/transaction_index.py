"""The file ``.txnindex``: the aborted transactions with their marker in this segment, to be skipped.

An entry has 34 bytes, big-endian: version (int16, 0), producer id, first offset, last offset (the abort marker's), and
the last stable offset when the marker was written (int64 each). Last offsets ascend. The file exists only if a
transaction was aborted. Entries are appended, never preallocated. A crash may leave an incomplete entry at the end.

TransactionIndexReader is pure, over bytes. TransactionIndexWriter owns a file, which it opens at the first write.
Thread rule: the caller of a writing call holds the partition's lock. Any thread may read. Source: Kafka's
``TransactionIndex`` and ``AbortedTxn`` (KIP-98).
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


class AbortedTxn(NamedTuple):
    """``last_offset`` is the abort marker's. ``last_stable_offset`` is the log's when the marker was written."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def to_bytes(self) -> bytes:
        return _ENTRY.pack(_VERSION, *self)


class AbortedTransactions(NamedTuple):
    """The aborted transactions of one segment. If they are not ``complete``, read the next segment's index too."""

    transactions: list[AbortedTxn]
    complete: bool


class TransactionIndexReader:
    """The complete entries in the bytes of an index. Iteration raises IndexCorruptError for an unknown version."""

    ENTRY_SIZE = _ENTRY.size

    def __init__(self, data: Buffer, base_offset: int, *, path: Path | None = None) -> None:
        self._data = memoryview(data).cast("B")
        self._base_offset = base_offset
        self._path = path

    def __len__(self) -> int:
        return len(self._data) // self.ENTRY_SIZE

    def __iter__(self) -> Iterator[AbortedTxn]:
        whole = len(self) * self.ENTRY_SIZE
        for number, (version, *fields) in enumerate(_ENTRY.iter_unpack(self._data[:whole])):
            if version != _VERSION:
                raise IndexCorruptError(
                    f"an aborted transaction of version {version}, the highest known is {_VERSION}",
                    path=self._path,
                    position=number * self.ENTRY_SIZE,
                )
            yield AbortedTxn(*fields)

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> AbortedTransactions:
        """Return the aborted transactions with records in ``[fetch_offset, upper_bound_offset)``.

        The result is complete once an entry's last stable offset reaches the upper bound: the transactions of later
        markers begin at or after it.
        """
        found = []
        for transaction in self:
            if transaction.last_offset >= fetch_offset and transaction.first_offset < upper_bound_offset:
                found.append(transaction)
            if transaction.last_stable_offset >= upper_bound_offset:
                return AbortedTransactions(found, True)
        return AbortedTransactions(found, False)

    def sanity_check(self) -> None:
        """Raise IndexCorruptError for an unknown version or a transaction that ends below the segment's base offset."""
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
        """No file is created. An existing file is appended to."""
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

    def append(self, transaction: AbortedTxn) -> None:
        """Add an entry. Raise ValueError if its last offset is not above the last one appended by this writer."""
        if self._last_offset is not None and transaction.last_offset <= self._last_offset:
            raise ValueError(
                f"an aborted transaction ending at {transaction.last_offset} cannot follow one ending at"
                f" {self._last_offset}: {self._path}"
            )
        size = self._size or 0
        self._size = size + self._open().pwrite(transaction.to_bytes(), size)
        self._last_offset = transaction.last_offset
        self._dirty = True

    def transactions(self) -> list[AbortedTxn]:
        return list(self._reader())

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> AbortedTransactions:
        """Return the aborted transactions as TransactionIndexReader.collect does."""
        return self._reader().collect(fetch_offset, upper_bound_offset)

    def sanity_check(self) -> None:
        """Check the file as TransactionIndexReader.sanity_check does."""
        self._reader().sanity_check()

    def truncate_to(self, offset: int) -> None:
        """Drop the first entry whose marker is at or above ``offset``, and all entries after it."""
        last: int | None = None
        for number, transaction in enumerate(self._reader()):
            if transaction.last_offset >= offset:
                self._cut(number * _ENTRY.size)
                self._last_offset = last
                return
            last = transaction.last_offset

    def reset(self) -> None:
        """Drop all entries. An existing file stays, empty."""
        if self._size is not None:
            self._cut(0)
        self._last_offset = None

    @property
    def is_synced(self) -> bool:
        """True if no write has happened since the last sync, or ever."""
        return not self._dirty

    def sync(self) -> None:
        """Run fsync for the writes since the last sync. The call needs no lock, as with the other indexes."""
        if self._dirty:
            self._dirty = False
            try:
                sync_whole(self._fs, self._path)
            except StorageError:
                self._dirty = True
                raise

    def set_path_and_write(self, path: Path) -> None:
        """Adopt the new path after the directory was renamed."""
        self._release()
        self._path = path

    def set_path(self, path: Path) -> None:
        """Adopt a new path from any thread. An open file stays open."""
        self._path = path

    def close(self) -> None:
        """Close the file. The call is idempotent, and a later call opens the file again."""
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


def encode_transactions(transactions: Iterable[AbortedTxn]) -> bytes:
    """Return the bytes of a complete ``.txnindex`` file."""
    return b"".join(transaction.to_bytes() for transaction in transactions)
