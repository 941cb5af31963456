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

from tidelog.kernel import IndexKey, TimeIndexEnd
from tidelog.model import IndexCorruptError
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


class TimeIndexWriter(TimeIndexEnd, MappedIndex):
    ENTRY_SIZE = _ENTRY.size
    OFFSET_KEY = IndexKey.TIME_OFFSET

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, or (-1, base offset) in an empty index."""
        return TimestampOffset(self._last_timestamp, self._last_offset)

    def entry(self, number: int) -> TimestampOffset:
        return _entry(self._entry_bytes(number), self.base_offset, 0)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry at or below ``timestamp``, or (-1, base offset) if there is none."""

        def question(data: Buffer, written: int, pending: bytes) -> TimestampOffset:
            waiting = len(pending) // self.ENTRY_SIZE
            if waiting and _entry(pending, self.base_offset, 0).timestamp <= timestamp:
                return _lookup(pending, waiting, self.base_offset, timestamp)
            return _lookup(data, written, self.base_offset, timestamp)

        return self._read(question)

    def sanity_check(self) -> None:
        """Raise IndexCorruptError for a wrong size, or if the last timestamp or offset is below the first or base."""
        self.write_pending()
        self._read(lambda data, written, _: _check(self.length, data, written, self.base_offset, self.path))

    def _note_last(self, entry: bytes) -> None:
        self._last_timestamp, self._last_offset = _last_entry(entry, 1 if entry else 0, self.base_offset)


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
