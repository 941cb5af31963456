"""The file ``.timeindex``: from a timestamp to the offset where its records begin in a segment.

An entry has 12 bytes, big-endian: the largest timestamp so far in milliseconds (int64), and the offset of its batch or
record, relative to the segment's base (int32). Timestamps ascend strictly, and offsets never descend. No record before
an entry's offset has a larger timestamp. Each offset index entry adds a time index entry if the timestamp grew. One
more is written when the segment stops being active, and the last slot is reserved for it. While the segment is active,
the file ends in zeros.

TimeIndexReader is pure, over bytes. TimeIndexWriter owns a file (for states, crashes and threads see ``mapped_index``).
Source: Kafka's ``TimeIndex``.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.kernel import IndexKey
from tidelog.model import IndexCorruptError, InvalidOffsetError
from tidelog.storage.index.mapped_index import MappedIndex, last_at_or_below

if TYPE_CHECKING:
    from typing_extensions import Buffer

_ENTRY = Struct(">qi")
_COLUMNS = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
NO_TIMESTAMP = -1


class TimestampOffset(NamedTuple):
    """A timestamp in milliseconds and its log offset."""

    timestamp: int
    offset: int


class TimeIndexReader:
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

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, or (-1, base offset) in an empty index."""
        return _last_entry(self._data, self._entries, self._base_offset)

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all entries as two columns of equal length: timestamps in milliseconds, absolute offsets."""
        raw = np.frombuffer(self._data, _COLUMNS, self._entries)
        return raw["timestamp"].astype(np.int64), raw["relative_offset"].astype(np.int64) + self._base_offset

    def entry(self, number: int) -> TimestampOffset:
        if not 0 <= number < self._entries:
            raise IndexError(f"entry {number} of an index of {self._entries}")
        return _entry(self._data, self._base_offset, number)

    def valid_prefix(self) -> TimeIndexReader:
        """Return the entries before the first that does not ascend, without the zeros after a broker's last entry.

        A first entry of all zeros (timestamp 0 at the base offset) looks like preallocated zeros unless another entry
        follows it. Leaving it out only makes a search begin earlier.
        """
        raw = np.frombuffer(self._data, _COLUMNS, self._entries)
        timestamps, offsets = raw["timestamp"], raw["relative_offset"]
        good = np.ones(self._entries, dtype=bool)
        if self._entries:
            good[0] = timestamps[0] >= 0 and offsets[0] >= 0
            good[1:] = (timestamps[1:] > timestamps[:-1]) & (offsets[1:] >= offsets[:-1])
        count = self._entries if good.all() else int(np.argmin(good))
        if count == 1 and timestamps[0] == 0 and offsets[0] == 0:
            count = 0
        return TimeIndexReader(self._data[: count * self.ENTRY_SIZE], self._base_offset, path=self._path)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry at or below ``timestamp``, or (-1, base offset) if there is none."""
        return _lookup(self._data, self._entries, self._base_offset, timestamp)

    def sanity_check(self) -> None:
        """Raise IndexCorruptError for a wrong size, or if the last timestamp or offset is below the first or base."""
        _check(len(self._data), self._data, self._entries, self._base_offset, self._path)


class TimeIndexWriter(MappedIndex):
    ENTRY_SIZE = _ENTRY.size
    _last_entry: TimestampOffset

    @property
    def is_full(self) -> bool:
        """True if only the slot reserved for the entry at the end of the active segment is left."""
        return self._count >= self._length // self.ENTRY_SIZE - 1

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, or (-1, base offset) in an empty index."""
        return self._last_entry

    def entry(self, number: int) -> TimestampOffset:
        self._require_number(number)
        return self._read(
            lambda data, written, pending: (
                _entry(data, self.base_offset, number)
                if number < written
                else _entry(pending, self.base_offset, number - written)
            )
        )

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry at or below ``timestamp``, or (-1, base offset) if there is none."""

        def question(data: Buffer, written: int, pending: bytes) -> TimestampOffset:
            waiting = len(pending) // self.ENTRY_SIZE
            if waiting and _entry(pending, self.base_offset, 0).timestamp <= timestamp:
                return _lookup(pending, waiting, self.base_offset, timestamp)
            return _lookup(data, written, self.base_offset, timestamp)

        return self._read(question)

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Add an entry if ``timestamp`` is above the last one. An equal timestamp is a no-op.

        Raise InvalidOffsetError if ``offset`` is below the last. Raise ValueError if ``timestamp`` is below the last or
        the index is full. ``skip_full_check`` allows the use of the reserved slot.
        """
        last = self._last_entry
        if self._count >= self.max_entries - 1 and (not skip_full_check or self._is_brimful(timestamp)):
            raise ValueError(f"append to a full time index of {self.entries} entries: {self.path}")
        if timestamp > last.timestamp:
            if self._count and offset < last.offset:
                raise self._out_of_order(offset)
            self._append_entry(_ENTRY.pack(timestamp, self.relative_offset(offset)))
            self._last_entry = TimestampOffset(timestamp, offset)
        elif self._count:
            if offset < last.offset:
                raise self._out_of_order(offset)
            if timestamp < last.timestamp:
                raise ValueError(
                    f"an entry for timestamp {timestamp} cannot follow the last, {last.timestamp}: {self.path}"
                )

    def _is_brimful(self, timestamp: int) -> bool:
        """Return True if an entry is needed but even the reserved slot is used."""
        return self._count >= self.max_entries and timestamp > self._last_entry.timestamp

    def _out_of_order(self, offset: int) -> InvalidOffsetError:
        return InvalidOffsetError(
            f"an entry for offset {offset} cannot follow the last, {self._last_entry.offset}",
            path=self.path,
            offset=offset,
        )

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above ``offset``."""
        self.write_pending()
        self._truncate_to_entries(
            self._read(
                lambda data, written, _: (
                    last_at_or_below(data, written, IndexKey.TIME_OFFSET, offset - 1 - self.base_offset) + 1
                )
            )
        )

    def sanity_check(self) -> None:
        """Raise IndexCorruptError for a wrong size, or if the last timestamp or offset is below the first or base."""
        self.write_pending()
        self._read(lambda data, written, _: _check(self.length, data, written, self.base_offset, self.path))

    def _note_last(self, entry: bytes) -> None:
        self._last_entry = _last_entry(entry, 1 if entry else 0, self.base_offset)


def _entry(data: Buffer, base_offset: int, number: int) -> TimestampOffset:
    timestamp, relative = _ENTRY.unpack_from(data, number * _ENTRY.size)
    return TimestampOffset(timestamp, base_offset + relative)


def _last_entry(data: Buffer, entries: int, base_offset: int) -> TimestampOffset:
    return _entry(data, base_offset, entries - 1) if entries else TimestampOffset(NO_TIMESTAMP, base_offset)


def _lookup(data: Buffer, entries: int, base_offset: int, timestamp: int) -> TimestampOffset:
    slot = last_at_or_below(data, entries, IndexKey.TIMESTAMP, timestamp)
    return _entry(data, base_offset, slot) if slot >= 0 else TimestampOffset(NO_TIMESTAMP, base_offset)


def _check(size: int, data: Buffer, entries: int, base_offset: int, path: Path | None) -> None:
    if size % _ENTRY.size:
        raise IndexCorruptError(f"{size} bytes are not a multiple of the entry size {_ENTRY.size}", path=path)
    if not entries:
        return
    at = (entries - 1) * _ENTRY.size
    first, last = _entry(data, base_offset, 0), _entry(data, base_offset, entries - 1)
    if last.timestamp < first.timestamp:
        raise IndexCorruptError(
            f"the last timestamp {last.timestamp} is below the first, {first.timestamp}", path=path, position=at
        )
    if last.offset < base_offset:
        raise IndexCorruptError(
            f"the last offset {last.offset} is below the base offset {base_offset}", path=path, position=at
        )
