"""The index entries for a run of batches, computed from batch tables. Pure.

Appends and recovery share one rule (Kafka's ``LogSegment`` since 4.1). A batch gets an offset-index entry (its last
offset, its position) if more than ``index.interval.bytes`` were written since the last entry, without the batch itself.
At that moment the largest timestamp so far is offered to the time index, with the last offset of the first batch that
has it. The time index takes it only if it grew. When the segment is closed, rolled or recovered, the largest timestamp
is offered once more.

The state passes from chunk to chunk: the bytes since the last entry, the largest timestamp and its offset, the last
entry. Thread rule: the caller holds its own lock. Any thread may read ``largest``, since the state changes as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable, IndexProgress, select_index_entries
from tidelog.model import InvalidOffsetError, OffsetOverflowError, StorageError
from tidelog.model.offsets import MAX_RELATIVE_OFFSET
from tidelog.storage.index import TimestampOffset

NO_TIMESTAMP = -1

Entries = npt.NDArray[np.int64]
"""Four rows: the offset and position for the offset index, the offered timestamp and its offset for the time index."""

_OFFSET_ENTRY = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])


class IndexBuilder(IndexProgress):
    """The builder for one segment; all offsets are absolute."""

    __slots__ = ()

    @property
    def largest(self) -> TimestampOffset:
        """The largest timestamp so far in ms (-1: none) and its offset."""
        _, timestamp, offset, _ = self._state
        return TimestampOffset(timestamp, offset)

    def resume(self, *, last_entry_offset: int | None, largest: TimestampOffset) -> None:
        """Continue after existing indexes; bytes are counted from zero again, as after Kafka's loading."""
        last = self._base_offset - 1 if last_entry_offset is None else last_entry_offset
        self._state = (0, largest.timestamp, largest.offset, last)

    def add(self, table: BatchTable, *, shift: int = 0) -> Entries:
        """Return the entries of the next batches, whose bytes lie ``shift`` behind the table's positions.

        Raise OffsetOverflowError for an offset more than 31 bits above the base offset. Raise StorageError for an
        offset below it, InvalidOffsetError for an offset that would not ascend in the index. All are StorageErrors.
        """
        entries, self._state, bad_row = self._select(table)
        if bad_row >= 0:
            self._refuse(table, bad_row, shift)
        if shift:
            entries[1] += shift
        return entries

    def preview(self, table: BatchTable) -> Entries:
        """Return the result of ``add`` without changing the state, up to the first batch that it would refuse."""
        return self._select(table)[0]

    def _select(self, table: BatchTable) -> tuple[Entries, tuple[int, int, int, int], int]:
        rows = table.position, table.size, table.last_offset, table.max_timestamp
        return select_index_entries(*rows, self._base_offset, self._interval_bytes, self._state)

    def _refuse(self, table: BatchTable, row: int, shift: int) -> None:
        last_offset = int(table.last_offset[row])
        position, offset = int(table.position[row]) + shift, int(table.base_offset[row])
        if not 0 <= last_offset - self._base_offset <= MAX_RELATIVE_OFFSET:
            kind = StorageError if last_offset < self._base_offset else OffsetOverflowError
            raise kind(
                f"the batch ends at offset {last_offset}, not within 31 bits above the base offset {self._base_offset}",
                position=position,
                offset=offset,
            )
        raise InvalidOffsetError(
            f"the batch ends at offset {last_offset}, not above {self._state[3]}, the last entry of the offset index",
            position=position,
            offset=offset,
        )


def offset_index_bytes(base_offset: int, parts: Sequence[Entries]) -> bytes:
    """Return the contents of a complete ``.index``."""
    together = np.concatenate(parts, axis=1) if parts else np.empty((4, 0), np.int64)
    entries = np.empty(together.shape[1], _OFFSET_ENTRY)
    entries["relative_offset"] = together[0] - base_offset
    entries["position"] = together[1]
    return entries.tobytes()


def time_index_bytes(base_offset: int, parts: Sequence[Entries], largest: TimestampOffset) -> bytes:
    """Return the contents of a complete ``.timeindex``: the taken entries, and the largest timestamp at the end.

    Raise InvalidOffsetError if a larger timestamp has a smaller offset.
    """
    timestamps = np.concatenate([*(part[2] for part in parts), [largest.timestamp]])
    offsets = np.concatenate([*(part[3] for part in parts), [largest.offset]])
    # The largest timestamp so far never falls, so a value above the previous one is above all previous ones.
    taken = timestamps > np.concatenate(([NO_TIMESTAMP], timestamps[:-1]))
    timestamps, offsets = timestamps[taken], offsets[taken]
    if len(offsets) and (np.diff(offsets) < 0).any():
        raise InvalidOffsetError("a larger timestamp has a smaller offset than the one before")
    entries = np.empty(len(timestamps), _TIME_ENTRY)
    entries["timestamp"] = timestamps
    entries["relative_offset"] = offsets - base_offset
    return entries.tobytes()
