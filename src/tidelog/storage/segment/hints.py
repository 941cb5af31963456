"""Indexes as hints: the entries of an ``.index`` or ``.timeindex`` that can be believed, whoever left the file.

A view must read the files of a running or a killed broker: preallocated, ending in zeros, perhaps damaged. So nothing
here raises for bad bytes. The believable entries are the longest prefix in which both columns ascend (and a position
lies inside the log); what follows is preallocation or rubbish. A wrong entry inside the prefix is found out by whoever
lands at its position (``SegmentReader.position_of``), so a hint costs time at worst, never records.

Called by: the segment reader and the view. A writer uses the strict classes of ``storage/index``. No lock: immutable.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tidelog.model import FileMissingError
from tidelog.storage.fs import FileSystem

_STEP_BYTES = 8 * 12 * 1024
"""Read in steps (a multiple of both entry sizes): a preallocated index is 10 MiB of zeros after its entries."""

_OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


@dataclass(frozen=True, slots=True, eq=False)
class OffsetHints:
    """Absolute offsets and byte positions, both i64 and ascending."""

    offsets: NDArray[np.int64]
    positions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets)

    def floor(self, offset: int) -> int:
        """Position of the last entry at or below ``offset``; 0 without one."""
        row = int(np.searchsorted(self.offsets, offset, side="right")) - 1
        return int(self.positions[row]) if row >= 0 else 0


@dataclass(frozen=True, slots=True, eq=False)
class TimeHints:
    """Largest timestamp so far (ms) and the absolute offset that had it, both i64; timestamps strictly ascend."""

    timestamps: NDArray[np.int64]
    offsets: NDArray[np.int64]
    complete: bool
    """Whether the file holds nothing else: then, if its owner finished it, ``largest`` is the segment's."""

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def largest(self) -> int | None:
        return int(self.timestamps[-1]) if len(self.timestamps) else None

    def floor(self, timestamp_ms: int) -> int | None:
        """Offset of the last entry whose timestamp is at or below; None without one."""
        row = int(np.searchsorted(self.timestamps, timestamp_ms, side="right")) - 1
        return int(self.offsets[row]) if row >= 0 else None


def read_offset_hints(fs: FileSystem, path: Path, base_offset: int, log_size: int) -> OffsetHints:
    """The believable entries of an ``.index``; none if it is not there. ``log_size`` in bytes bounds the positions."""
    entries, _ = _read_prefix(fs, path, _OFFSET_ENTRY, ("offset", "position"))
    positions = entries["position"].astype(np.int64)
    # Kafka writes no entry for position 0, so zeros are preallocation even in the first place.
    count = int(np.searchsorted(positions, log_size))
    first = 1 if count and positions[0] == 0 else 0
    return OffsetHints(entries["offset"][first:count].astype(np.int64) + base_offset, positions[first:count])


def read_time_hints(fs: FileSystem, path: Path, base_offset: int) -> TimeHints:
    """The believable entries of a ``.timeindex``; none if it is not there."""
    entries, complete = _read_prefix(fs, path, _TIME_ENTRY, ("timestamp", "offset"))
    if len(entries) and not entries["timestamp"][0] and not entries["offset"][0]:
        # Preallocation, or the only record is of 1970: believed either way by nobody who reads the batches.
        entries, complete = entries[1:], False
    offsets = entries["offset"].astype(np.int64) + base_offset
    return TimeHints(entries["timestamp"].astype(np.int64), offsets, complete)


def _read_prefix(
    fs: FileSystem, path: Path, entry: np.dtype[np.void], columns: tuple[str, str]
) -> tuple[NDArray[np.void], bool]:
    """The longest prefix that is not negative, with the first column strictly ascending and the second not falling.

    And whether that is the whole file.
    """
    try:
        file = fs.open(path)
    except FileMissingError:
        return np.empty(0, entry), False
    with file:
        data = b""
        while True:
            step = file.pread(_STEP_BYTES, len(data))
            data += step
            rows = np.frombuffer(data, entry, count=len(data) // entry.itemsize)
            count = _ascending(rows[columns[0]], rows[columns[1]])
            if len(step) < _STEP_BYTES or count < len(rows):
                return rows[:count], count * entry.itemsize == len(data) and len(step) < _STEP_BYTES


def _ascending(strictly: NDArray[np.integer], weakly: NDArray[np.integer]) -> int:
    if not len(strictly) or strictly[0] < 0 or weakly[0] < 0:
        return 0
    fits = (strictly[1:] > strictly[:-1]) & (weakly[1:] >= weakly[:-1])
    breaks = np.flatnonzero(~fits)
    return int(breaks[0]) + 1 if len(breaks) else len(strictly)
