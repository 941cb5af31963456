"""The entries that a run of batches puts into the offset and the time index. Pure: batch tables in, arrays out.

One rule for appending and for recovery (Kafka's ``LogSegment`` since 4.1): a batch gets an offset-index entry (its last
offset, its position) when more than ``index.interval.bytes`` were written since the last entry, counted before the
batch itself. The time index is offered the largest timestamp so far then, with the last offset of the first batch that
has it, and takes it only where it grew. Once more, when the segment is closed, rolled or recovered, it is offered the
largest timestamp (``final_time_entry``).

State, carried from chunk to chunk: the bytes since the last entry, the largest timestamp and its offset, the last
entries written. Called by: LogSegment (append) and segment_recovery. Thread rule: under the caller's lock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable, select_index_entries
from tidelog.model import InvalidOffsetError
from tidelog.storage.index import TimestampOffset

NO_TIMESTAMP = -1

OFFSET_ENTRY = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])

OffsetEntries = npt.NDArray[np.void]
TimeEntries = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntries:
    """Entries in the files' own layout (big-endian, relative offsets), in order."""

    offset_entries: OffsetEntries
    time_entries: TimeEntries


class IndexBuilder:
    """Offsets are absolute in every argument and property; they must lie within 31 bits above the base offset."""

    __slots__ = (
        "_base_offset",
        "_bytes_since_entry",
        "_interval_bytes",
        "_last_entry_offset",
        "_last_time_entry",
        "_last_time_offset",
        "max_timestamp",
        "offset_of_max_timestamp",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._bytes_since_entry = 0
        self._last_entry_offset = base_offset - 1
        self._last_time_entry = NO_TIMESTAMP
        self._last_time_offset = base_offset
        self.max_timestamp = NO_TIMESTAMP
        """Largest timestamp so far in ms; -1 without one."""
        self.offset_of_max_timestamp = base_offset

    def resume(
        self, *, last_entry_offset: int | None, largest: TimestampOffset, last_time_entry: TimestampOffset
    ) -> None:
        """Go on behind indexes that exist already; bytes are counted from zero again, as after Kafka's loading."""
        self._bytes_since_entry = 0
        self._last_entry_offset = self._base_offset - 1 if last_entry_offset is None else last_entry_offset
        self._last_time_entry, self._last_time_offset = last_time_entry
        self.max_timestamp, self.offset_of_max_timestamp = largest

    def add(self, table: BatchTable, *, shift: int = 0) -> NewEntries:
        """Entries of the next batches, whose bytes lie ``shift`` behind the table's positions.

        InvalidOffsetError where an offset would not ascend in the index.
        """
        rows, timestamps, offsets, state, bad_row = select_index_entries(
            table.size,
            table.last_offset,
            table.max_timestamp,
            self._interval_bytes,
            self._bytes_since_entry,
            self.max_timestamp,
            self.offset_of_max_timestamp,
            self._last_entry_offset,
        )
        if bad_row >= 0:
            last_offset = int(table.last_offset[bad_row])
            raise InvalidOffsetError(
                f"the batch ends at offset {last_offset}, not above {state[3]}, the last entry of the offset index",
                position=int(table.position[bad_row]) + shift,
                offset=int(table.base_offset[bad_row]),
            )
        self._bytes_since_entry, self.max_timestamp, self.offset_of_max_timestamp, self._last_entry_offset = state
        offset_entries = np.empty(len(rows), OFFSET_ENTRY)
        offset_entries["relative_offset"] = table.last_offset[rows] - self._base_offset
        offset_entries["position"] = table.position[rows] + shift
        return NewEntries(offset_entries=offset_entries, time_entries=self._grown(timestamps, offsets))

    def add_one(self, size: int, last_offset: int, max_timestamp: int) -> bool:
        """The next batch alone, as ``add`` would take it: whether it gets an offset entry.

        The caller then offers ``max_timestamp`` and its offset to the time index itself.
        """
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = max_timestamp, last_offset
        wanted = self._bytes_since_entry > self._interval_bytes
        if wanted:
            self._bytes_since_entry = 0
            self._last_entry_offset = last_offset
            self._last_time_entry, self._last_time_offset = self.max_timestamp, self.offset_of_max_timestamp
        self._bytes_since_entry += size
        return wanted

    def final_time_entry(self) -> TimeEntries:
        """The entry of the largest timestamp, or none where the time index has it already."""
        return self._grown(np.array([self.max_timestamp]), np.array([self.offset_of_max_timestamp]))

    def _grown(self, timestamps: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> TimeEntries:
        """The offered entries whose timestamp is above the one before; the timestamps offered never fall."""
        if not len(timestamps):
            return np.empty(0, TIME_ENTRY)
        taken = timestamps > np.concatenate(([self._last_time_entry], timestamps[:-1]))
        timestamps, offsets = timestamps[taken], offsets[taken]
        if len(timestamps):
            falls = offsets < np.concatenate(([self._last_time_offset], offsets[:-1]))
            if falls.any():
                offset = int(offsets[np.argmax(falls)])
                raise InvalidOffsetError("a larger timestamp has a smaller offset than the one before", offset=offset)
            self._last_time_entry, self._last_time_offset = int(timestamps[-1]), int(offsets[-1])
        entries = np.empty(len(timestamps), TIME_ENTRY)
        entries["timestamp"] = timestamps
        entries["relative_offset"] = offsets - self._base_offset
        return entries
