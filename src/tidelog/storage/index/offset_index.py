"""The file ``.index``: from a record offset to its position in the segment.

An entry has 8 bytes, big-endian: the offset relative to the segment's base (int32), and the position in ``.log``
(int32). Both ascend strictly. An entry holds the *last* offset of the batch at that position. The index is sparse, with
one entry per ``index.interval.bytes`` of log. The file of an active segment is preallocated and ends in zeros.

OffsetIndexReader is pure, over bytes. OffsetIndexWriter owns a file (for states, crashes and threads see
``mapped_index``). Source: Kafka's ``OffsetIndex``.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.kernel import IndexKey, OffsetIndexEnd
from tidelog.model import IndexCorruptError
from tidelog.storage.index.mapped_index import MappedIndex, first_at_or_above, last_at_or_below

if TYPE_CHECKING:
    from typing_extensions import Buffer

_ENTRY = Struct(">ii")
_COLUMNS = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])


class OffsetPosition(NamedTuple):
    """A log offset and the position in ``.log`` of the batch that ends with it."""

    offset: int
    position: int


class OffsetIndexReader:
    """The entries in the bytes of an index. An incomplete entry at the end is ignored."""

    ENTRY_SIZE = _ENTRY.size

    def __init__(self, data: Buffer, base_offset: int, *, path: Path | None = None) -> None:
        self._data = memoryview(data).cast("B")
        self._base_offset = base_offset
        self._path = path
        self._entries = len(self._data) // self.ENTRY_SIZE

    def __len__(self) -> int:
        return self._entries

    @property
    def base_offset(self) -> int:
        return self._base_offset

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all entries as two columns of equal length: absolute offsets, positions."""
        raw = np.frombuffer(self._data, _COLUMNS, self._entries)
        return raw["relative_offset"].astype(np.int64) + self._base_offset, raw["position"].astype(np.int64)

    def entry(self, number: int) -> OffsetPosition:
        if not 0 <= number < self._entries:
            raise IndexError(f"entry {number} of an index of {self._entries}")
        return _entry(self._data, self._base_offset, number)

    def valid_prefix(self) -> OffsetIndexReader:
        """Return the entries before the first that does not ascend, without the zeros after a broker's last entry.

        A segment's first batch has no index entry, so an entry with position 0 is invalid.
        """
        raw = np.frombuffer(self._data, _COLUMNS, self._entries)
        offsets, positions = raw["relative_offset"].astype(np.int64), raw["position"].astype(np.int64)
        good = np.ones(self._entries, dtype=bool)
        if self._entries:
            good[0] = offsets[0] >= 0 and positions[0] > 0
            good[1:] = (np.diff(offsets) > 0) & (np.diff(positions) > 0)
        count = self._entries if good.all() else int(np.argmin(good))
        return OffsetIndexReader(self._data[: count * self.ENTRY_SIZE], self._base_offset, path=self._path)

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below ``offset``, or (base offset, 0) if there is none."""
        return _lookup(self._data, self._entries, self._base_offset, offset)

    def upper_bound(self, start: OffsetPosition, fetch_bytes: int) -> OffsetPosition | None:
        """Return the first entry at or after the end of a read of ``fetch_bytes`` from ``start``, or None."""
        return _upper_bound(self._data, self._entries, self._base_offset, start.position + fetch_bytes)

    def sanity_check(self) -> None:
        """Raise IndexCorruptError if the size is no multiple of the entry size or the last offset is below the base."""
        _check(len(self._data), self._data, self._entries, self._base_offset, self._path)


class OffsetIndexWriter(OffsetIndexEnd, MappedIndex):
    ENTRY_SIZE = _ENTRY.size
    OFFSET_KEY = IndexKey.OFFSET

    @property
    def last_offset(self) -> int:
        """The last entry's offset, or the base offset in an empty index."""
        return self._last_offset

    def entry(self, number: int) -> OffsetPosition:
        return _entry(self._entry_bytes(number), self.base_offset, 0)

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below ``offset``, or (base offset, 0) if there is none."""

        def question(data: Buffer, written: int, pending: bytes) -> OffsetPosition:
            waiting = len(pending) // self.ENTRY_SIZE
            slot = last_at_or_below(pending, waiting, IndexKey.OFFSET, offset - self.base_offset) if waiting else -1
            if slot >= 0:
                return _entry(pending, self.base_offset, slot)
            return _lookup(data, written, self.base_offset, offset)

        return self._read(question)

    def upper_bound(self, start: OffsetPosition, fetch_bytes: int) -> OffsetPosition | None:
        """Return the first entry at or after the end of a read of ``fetch_bytes`` from ``start``, or None."""
        end = start.position + fetch_bytes

        def question(data: Buffer, written: int, pending: bytes) -> OffsetPosition | None:
            found = _upper_bound(data, written, self.base_offset, end)
            if found is None:
                found = _upper_bound(pending, len(pending) // self.ENTRY_SIZE, self.base_offset, end)
            return found

        return self._read(question)

    def sanity_check(self) -> None:
        """Raise IndexCorruptError if the size is no multiple of the entry size or the last offset is below the base."""
        self.write_pending()
        self._read(lambda data, written, _: _check(self.length, data, written, self.base_offset, self.path))

    def _note_last(self, entry: bytes) -> None:
        self._last_offset = _entry(entry, self.base_offset, 0).offset if entry else self.base_offset


def _entry(data: Buffer, base_offset: int, number: int) -> OffsetPosition:
    relative, position = _ENTRY.unpack_from(data, number * _ENTRY.size)
    return OffsetPosition(base_offset + relative, position)


def _lookup(data: Buffer, entries: int, base_offset: int, offset: int) -> OffsetPosition:
    slot = last_at_or_below(data, entries, IndexKey.OFFSET, offset - base_offset)
    return _entry(data, base_offset, slot) if slot >= 0 else OffsetPosition(base_offset, 0)


def _upper_bound(data: Buffer, entries: int, base_offset: int, position: int) -> OffsetPosition | None:
    slot = first_at_or_above(data, entries, IndexKey.POSITION, position)
    return _entry(data, base_offset, slot) if slot >= 0 else None


def _check(size: int, data: Buffer, entries: int, base_offset: int, path: Path | None) -> None:
    if size % _ENTRY.size:
        raise IndexCorruptError(f"{size} bytes are not a multiple of the entry size {_ENTRY.size}", path=path)
    if entries:
        last = _entry(data, base_offset, entries - 1)
        if last.offset < base_offset:
            raise IndexCorruptError(
                f"the last offset {last.offset} is below the base offset {base_offset}",
                path=path,
                position=(entries - 1) * _ENTRY.size,
            )
