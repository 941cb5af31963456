"""The file under an index that is written: preallocated, appended to, mapped for reading, trimmed.

Owns one ``.index`` or ``.timeindex`` file of equal entries: entries first, then zeros up to the preallocated length.
States: *missing* -> open preallocates it to ``max_index_bytes`` with no entries; *existing* -> its whole length counts
as entries, as for Kafka (wrong after a kill, which is why a segment is recovered then); *trimmed* -> no zeros left.

Entries are written with ``pwrite`` and read through a mapping: a store into a mapping of a sparse file would end the
process by SIGBUS when the disk is full, ``pwrite`` raises. The last ones wait in memory until there are
``PENDING_ENTRIES`` of them, or until the file is flushed or reshaped; readers see them there. A crash leaves some of
the entries, and zeros; only ``flush`` promises more.

A process has few mappings and descriptors, and may have very many indexes: an index that is only written has neither,
the file is mapped when it is first searched, and the mapping is one of ``KEPT_OPEN``. A mapping is closed before the
file shrinks, so a reader in another thread that still holds it gets ValueError (and looks again) instead of SIGBUS:

=====================================  =============================================================================
who                                    in this order
=====================================  =============================================================================
a reader without a mapping             takes the view; maps; puts the mapping down under the view's generation; looks
                                       whether that is still the generation, else begins again
a reader with one                      searches, holding the interpreter's lock; ValueError: begins again
whoever reshapes the file              puts a view of the next generation in place; takes all mappings that were put
                                       down, and closes them; reshapes
=====================================  =============================================================================

Thread rule: writing calls under the partition's lock; reading calls, ``sync`` and ``let_go`` from any thread.
Source: Kafka's ``AbstractIndex``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from tidelog.model import ClosedError, FileMissingError, StorageError
from tidelog.storage.fs import KEPT_OPEN, File, FileSystem, MappedBytes, sync_whole

PENDING_ENTRIES = 64
"""How many entries one write brings to the file."""
_MAX_RELATIVE_OFFSET = 2**31 - 1

T = TypeVar("T")


class IndexView(NamedTuple):
    """The entries at one moment: those in the file, then those that wait."""

    generation: int
    """Another one after every change of the file's length."""
    written: int
    pending: bytes


class MappedIndex(ABC):
    """Base of OffsetIndexWriter and TimeIndexWriter."""

    ENTRY_SIZE: int

    def __init__(self, fs: FileSystem, path: Path, base_offset: int, *, max_index_bytes: int) -> None:
        """Open ``path``, or create it with ``max_index_bytes`` zeros (rounded down to whole entries)."""
        self._fs = fs
        self._path = path
        self._base_offset = base_offset
        self._max_index_bytes = max_index_bytes
        self._closed = False
        self._dirty = False
        self._mappings: dict[int, MappedBytes] = {}
        """By generation; at most one, but for moments."""
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

    # --- what it is ---

    @property
    def path(self) -> Path:
        return self._path

    @property
    def base_offset(self) -> int:
        return self._base_offset

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self._count

    @property
    def max_entries(self) -> int:
        return self._length // self.ENTRY_SIZE

    @property
    def max_index_bytes(self) -> int:
        return self._max_index_bytes

    @property
    def length(self) -> int:
        """Bytes of the file, preallocated ones included."""
        return self._length

    @property
    def size_bytes(self) -> int:
        """Bytes of the entries."""
        return self.entries * self.ENTRY_SIZE

    @property
    def is_full(self) -> bool:
        return self._count >= self._length // self.ENTRY_SIZE

    def can_append_offset(self, offset: int) -> bool:
        """Whether ``offset`` lies within 31 bits above the base offset."""
        return 0 <= offset - self._base_offset <= _MAX_RELATIVE_OFFSET

    def relative_offset(self, offset: int) -> int:
        """``offset`` as stored; OverflowError where it does not fit (Kafka's IndexOffsetOverflowException)."""
        if not self.can_append_offset(offset):
            raise OverflowError(
                f"offset {offset} does not lie within 31 bits above the base offset {self._base_offset} of {self._path}"
            )
        return offset - self._base_offset

    # --- changing the file ---

    def resize(self, size: int) -> bool:
        """Make the file ``size`` bytes long (rounded down to whole entries), keeping its entries; False if it is so."""
        self._require_open()
        size = self._rounded(size)
        if size == self._length:
            return False
        self._reshape(min(self.entries, size // self.ENTRY_SIZE), size)
        return True

    def trim_to_valid_size(self) -> None:
        """Cut the zeros off; the index stays open for reading."""
        self.resize(self.size_bytes)
        self.write_pending()

    def truncate(self) -> None:
        """Drop all entries; the length stays."""
        self._truncate_to_entries(0)

    def reset(self) -> None:
        """Drop all entries and make the file ``max_index_bytes`` long again, as before a recovery."""
        self._require_open()
        self._reshape(0, self._rounded(self._max_index_bytes))

    def flush(self) -> None:
        """Write what waits, fsync what was written since the last flush."""
        self.write_pending()
        self.sync()

    def write_pending(self) -> None:
        """Write the entries that wait."""
        if self._view.pending:
            self._write(self._view.pending)

    def sync(self) -> None:
        """fsync what was written since the last time. The one changing call that needs no lock: what is written
        meanwhile is left for the next time."""
        if self._dirty:
            self._dirty = False
            try:
                sync_whole(self._fs, self._path)
            except StorageError:
                self._dirty = True
                raise

    def rename_to(self, path: Path) -> None:
        """Rename the file atomically; the entries stay readable."""
        self.write_pending()
        self._fs.rename(self._path, path)
        self._path = path

    def moved_to(self, path: Path) -> None:
        """Take over the new path of a file that was renamed, or its directory."""
        self._path = path
        self.write_pending()

    def follow(self, path: Path) -> None:
        """The same from any thread: what waits goes on waiting."""
        self._path = path

    def delete_if_exists(self) -> None:
        self.close_handler()
        self._fs.remove(self._path, missing_ok=True)

    def close(self) -> None:
        """Trim and close; idempotent."""
        if not self._closed:
            self.trim_to_valid_size()
            self.close_handler()

    def close_handler(self) -> None:
        """Close without trimming: the file stays as it is; idempotent."""
        self._closed = True
        self._forget_entries()

    def let_go(self) -> None:
        """Close the mapping, which the next search makes again."""
        mappings, self._mappings = self._mappings, {}
        for mapping in list(mappings.values()):
            mapping.close()

    # --- for the two kinds of index ---

    def _append_entry(self, entry: bytes) -> None:
        """There has to be room."""
        if self._closed:
            self._require_open()
        generation, written, pending = self._view
        if len(pending) < (PENDING_ENTRIES - 1) * self.ENTRY_SIZE:
            self._view = IndexView(generation, written, pending + entry)
        else:
            self._write(pending + entry)
        self._count += 1

    def _write(self, entries: bytes) -> None:
        """StorageError leaves what waits waiting."""
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
        """``question(bytes in the file, entries there, bytes that wait)``; again if the mapping was closed."""
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
            except ValueError:  # "mmap closed": the file is being reshaped, or there were too many mappings
                if self._mappings.get(view.generation) is mapping:
                    raise

    def _map(self, view: IndexView) -> MappedBytes | None:
        """None where the file was reshaped meanwhile."""
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
        KEPT_OPEN.opened(self)
        return mapping

    def _require_number(self, number: int) -> None:
        if not 0 <= number < self._count:
            raise IndexError(f"entry {number} of an index of {self._count}: {self._path}")

    def _rounded(self, size: int) -> int:
        return size - size % self.ENTRY_SIZE

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError("the index is closed", path=self._path)

    def _reshape(self, entries: int, length: int) -> None:
        """Keep the first ``entries``, zeros behind them up to ``length``.

        The file is cut first, so dropped entries read as zeros and the valid prefix of the file can be told.
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
        """Readers see an empty index from here on: a slower search from the segment's start, never wrong."""
        self._count = 0
        self._view = IndexView(self._view.generation + 1, 0, b"")
        KEPT_OPEN.let_go(self)

    def _last_in(self, file: File, entries: int) -> bytes:
        return file.pread(self.ENTRY_SIZE, (entries - 1) * self.ENTRY_SIZE) if entries else b""

    @abstractmethod
    def _note_last(self, entry: bytes) -> None:
        """The last entry's bytes; none in an empty index."""
