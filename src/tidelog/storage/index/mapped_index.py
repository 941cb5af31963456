"""A writable index file: preallocated, appended to, mapped for reading, trimmed at the end.

The class owns one ``.index`` or ``.timeindex`` file of entries of equal size, then zeros up to the preallocated length.
States: *missing* -> opening preallocates ``max_index_bytes`` with no entries; *existing* -> its whole length counts as
entries, as in Kafka; *trimmed* -> no zeros are left. (The count is wrong after an unclean shutdown, until recovery.)

Entries are written with ``pwrite`` and read through a mapping. A store into a mapping of a sparse file would kill the
process with SIGBUS if the disk is full, while ``pwrite`` raises. New entries stay in memory until there are
``PENDING_ENTRIES`` of them, or until the file is flushed or reshaped. Readers see them there. A crash leaves some of
the entries, and zeros. Only ``flush`` guarantees more.

A process may have few mappings and descriptors but very many indexes. An index that is only written has neither. The
first search maps the file, and ``DESCRIPTOR_CACHE`` bounds the mappings. A mapping is closed before the file shrinks,
so a reader in another thread gets ValueError and retries, instead of SIGBUS:

=====================================  =============================================================================
thread                                 steps
=====================================  =============================================================================
a reader without a mapping             reads the view; maps; stores the mapping under the view's generation; retries
                                       if the generation has changed
a reader with a mapping                searches while it holds the GIL; retries on ValueError
a writer that reshapes the file        replaces the view by one of the next generation; takes and closes all stored
                                       mappings; reshapes
=====================================  =============================================================================

Thread rule: the caller of a writing call holds the partition's lock. Reading calls, ``sync`` and ``close_cached`` may
come from any thread. Source: Kafka's ``AbstractIndex``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from struct import unpack_from
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tidelog.kernel import IndexEnd, IndexKey, lookup_index, lookup_index_above
from tidelog.model import ClosedError, FileMissingError, StorageError
from tidelog.storage.fs import DESCRIPTOR_CACHE, File, FileSystem, MappedBytes, sync_whole

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")


class IndexView(NamedTuple):
    """An immutable view of the entries: those in the file, then the pending ones."""

    generation: int
    """The generation changes whenever the file is reshaped or closed."""
    written: int
    pending: bytes


class MappedIndex(IndexEnd, ABC):
    """The base class of OffsetIndexWriter and TimeIndexWriter."""

    ENTRY_SIZE: int
    OFFSET_KEY: IndexKey
    """The entry's field that has its offset."""

    def __init__(self, fs: FileSystem, path: Path, base_offset: int, *, max_index_bytes: int) -> None:
        """Open ``path``, or create it with ``max_index_bytes`` zeros (rounded down to complete entries)."""
        self._fs = fs
        self._path = path
        self._base_offset = base_offset
        self._max_index_bytes = max_index_bytes
        self._closed = False
        self._dirty = False
        self._mappings: dict[int, MappedBytes] = {}
        """The mappings by generation. There is at most one, except for short moments."""
        self.newly_created = False
        try:
            file = fs.open(path)
        except FileMissingError:
            file = self._create()
        with file:
            self._length = file.size
            count = 0 if self.newly_created else self._length // self.ENTRY_SIZE
            self._view = IndexView(0, count, b"")
            self._count = count
            self._note_last(self._last_in(file, count))

    def _create(self) -> File:
        if self._max_index_bytes < self.ENTRY_SIZE:
            raise ValueError(f"max_index_bytes of {self._max_index_bytes} is less than an entry of {self.ENTRY_SIZE}")
        file = self._fs.open(self._path, create=True)
        file.allocate(self._rounded(self._max_index_bytes))
        self.newly_created = self._dirty = True
        return file

    # --- properties ---

    @property
    def path(self) -> Path:
        return self._path

    @property
    def base_offset(self) -> int:
        return self._base_offset

    @property
    def entries(self) -> int:
        """The number of entries."""
        return self._count

    @property
    def max_entries(self) -> int:
        return self._length // self.ENTRY_SIZE

    @property
    def max_index_bytes(self) -> int:
        return self._max_index_bytes

    @property
    def length(self) -> int:
        """The bytes of the file, including preallocated ones."""
        return self._length

    @property
    def size_bytes(self) -> int:
        """The bytes of the entries."""
        return self.entries * self.ENTRY_SIZE

    # --- changing the file ---

    def resize(self, size: int) -> bool:
        """Make the file ``size`` bytes long, rounded down. Return False if it already is. Entries that fit remain."""
        self._require_open()
        size = self._rounded(size)
        if size == self._length:
            return False
        self._reshape(min(self.entries, size // self.ENTRY_SIZE), size)
        return True

    def trim_to_valid_size(self) -> None:
        """Truncate the zeros at the end. The index stays open for reading."""
        self.resize(self.size_bytes)
        self.write_pending()

    def truncate(self) -> None:
        """Drop all entries and keep the length."""
        self._truncate_to_entries(0)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above ``offset``."""
        self.write_pending()
        below = offset - 1 - self._base_offset
        kept = self._read(lambda data, written, _: last_at_or_below(data, written, self.OFFSET_KEY, below) + 1)
        self._truncate_to_entries(kept)

    def reset(self) -> None:
        """Drop all entries and restore the length ``max_index_bytes``, as before a recovery."""
        self._require_open()
        self._reshape(0, self._rounded(self._max_index_bytes))

    def flush(self) -> None:
        """Write the pending entries, then fsync."""
        self.write_pending()
        self.sync()

    def write_pending(self) -> None:
        """Write the pending entries."""
        if self._view.pending:
            self._write(self._view.pending)

    @property
    def is_synced(self) -> bool:
        """True if no write has happened since the last sync, or ever."""
        return not self._dirty

    def sync(self) -> None:
        """Run fsync for the writes since the last sync, without a lock. Concurrent writes are left to the next sync."""
        if self._dirty:
            self._dirty = False
            try:
                sync_whole(self._fs, self._path)
            except StorageError:
                self._dirty = True
                raise

    def set_path_and_write(self, path: Path) -> None:
        """Adopt the new path of a renamed file or directory."""
        self._path = path
        self.write_pending()

    def set_path(self, path: Path) -> None:
        """Adopt a new path from any thread, without writing the pending entries."""
        self._path = path

    def close(self) -> None:
        """Trim and close. The call is idempotent."""
        if not self._closed:
            self.trim_to_valid_size()
            self.close_without_trim()

    def close_without_trim(self) -> None:
        """Close without trimming, so the file does not change. The call is idempotent."""
        self._closed = True
        self._forget_entries()

    def close_cached(self) -> None:
        """Close the mapping. The next search maps the file again."""
        mappings, self._mappings = self._mappings, {}
        for mapping in list(mappings.values()):
            mapping.close()

    # --- for the two kinds of index ---

    def _write(self, entries: bytes) -> None:
        """Write pending entries. If StorageError is raised, they stay pending."""
        generation, written, _ = self._view
        with self._fs.open(self._path, write=True) as file:
            file.pwrite(entries, written * self.ENTRY_SIZE)
        self._dirty = True
        self._view = IndexView(generation, written + len(entries) // self.ENTRY_SIZE, b"")

    def _truncate_to_entries(self, entries: int) -> None:
        self._require_open()
        if entries < self.entries:
            self._reshape(entries, self._length)

    def _read(self, question: Callable[[MappedBytes | bytes, int, bytes], T]) -> T:
        """Return ``question(bytes in the file, entries there, pending bytes)``. Retry if the mapping was closed."""
        while True:
            self._require_open()
            view = self._view
            if not view.written:
                return question(b"", 0, view.pending)
            mapping = self._mappings.get(view.generation)
            if mapping is None and (mapping := self._map(view)) is None:
                continue
            try:
                return question(mapping, view.written, view.pending)
            except ValueError:  # "mmap closed": the file was reshaped, or DESCRIPTOR_CACHE closed the mapping
                if self._mappings.get(view.generation) is mapping:
                    raise

    def _map(self, view: IndexView) -> MappedBytes | None:
        """Map the file. Return None if it was reshaped meanwhile."""
        mappings = self._mappings
        try:
            with self._fs.open(self._path) as file:
                mapping = mappings.setdefault(view.generation, file.map(self._length))
        except StorageError:
            if self._view.generation != view.generation:
                return None
            raise
        if self._view.generation != view.generation or mappings is not self._mappings:
            mapping.close()
            return None
        DESCRIPTOR_CACHE.register(self)
        return mapping

    def _entry_bytes(self, number: int) -> bytes:
        """Return an entry's bytes. Raise IndexError if there is none with the number."""
        if not 0 <= number < self._count:
            raise IndexError(f"entry {number} of an index of {self._count}: {self._path}")
        size = self.ENTRY_SIZE

        def question(data: Buffer, written: int, pending: bytes) -> bytes:
            place = (data, number * size) if number < written else (pending, (number - written) * size)
            found: bytes = unpack_from(f"{size}s", *place)[0]
            return found

        return self._read(question)

    def _rounded(self, size: int) -> int:
        return size - size % self.ENTRY_SIZE

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError("the index is closed", path=self._path)

    def _reshape(self, entries: int, length: int) -> None:
        """Keep the first ``entries``, followed by zeros up to ``length``.

        The file is truncated first, so dropped entries read as zeros and the valid prefix stays recognizable.
        """
        self.write_pending()
        self._forget_entries()
        with self._fs.open(self._path, write=True) as file:
            last = self._last_in(file, entries)
            file.truncate(entries * self.ENTRY_SIZE)
            file.truncate(length)
        self._dirty = True
        self._length = length
        self._note_last(last)
        self._count = entries
        self._view = IndexView(self._view.generation + 1, entries, b"")

    def _forget_entries(self) -> None:
        """Publish an empty view. A reader then searches from the segment's start, which is slower but never wrong."""
        self._count = 0
        self._view = IndexView(self._view.generation + 1, 0, b"")
        DESCRIPTOR_CACHE.close(self)

    def _last_in(self, file: File, entries: int) -> bytes:
        return file.pread(self.ENTRY_SIZE, (entries - 1) * self.ENTRY_SIZE) if entries else b""

    @abstractmethod
    def _note_last(self, entry: bytes) -> None:
        """Record the last entry's bytes, which are empty for an empty index."""


_MIN, _MAX = -(2**63), 2**63 - 1


def last_at_or_below(buffer: Buffer, count: int, key: IndexKey, target: int) -> int:
    """Return the number of the last of the first ``count`` entries whose ``key`` is at most ``target``, or -1."""
    return lookup_index(buffer, key, min(target, _MAX), count) if target >= _MIN else -1


def first_at_or_above(buffer: Buffer, count: int, key: IndexKey, target: int) -> int:
    """Return the number of the first of the first ``count`` entries whose ``key`` is at least ``target``, or -1."""
    return lookup_index_above(buffer, key, max(target, _MIN), count) if target <= _MAX else -1
