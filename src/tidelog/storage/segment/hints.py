"""Hints from an ``.index`` or ``.timeindex``: the entries that a reader can trust in any file.

A view must read the files of a running or a killed broker: preallocated, ending in zeros, perhaps damaged. So invalid
bytes raise no error here. The hints are the longest prefix in which both columns ascend (and a position lies inside the
log). The rest is preallocation or damage. ``SegmentReader.position_of`` detects a wrong entry inside the prefix, so a
wrong hint costs time but loses no records.

A writer uses the strict classes of ``storage/index`` instead. Thread rule: any thread; the hints are immutable.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tidelog.model import FileMissingError
from tidelog.storage.fs import FileSystem

_STEP_BYTES = 8 * 12 * 1024
"""The size of a read (a multiple of both entry sizes): a preallocated index has 10 MiB of zeros after its entries."""

_OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


@dataclass(frozen=True, slots=True, eq=False)
class OffsetHints:
    """The absolute offsets and the byte positions, both int64 and ascending."""

    offsets: NDArray[np.int64]
    positions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets)

    def floor(self, offset: int) -> int:
        """Return the position of the last entry at or below ``offset``, or 0."""
        row = int(np.searchsorted(self.offsets, offset, side="right")) - 1
        return int(self.positions[row]) if row >= 0 else 0


@dataclass(frozen=True, slots=True, eq=False)
class TimeHints:
    """The largest timestamps so far (ms) and their absolute offsets, both int64; timestamps strictly ascend."""

    timestamps: NDArray[np.int64]
    offsets: NDArray[np.int64]
    complete: bool
    """True if the file has only these entries: then, if its owner finished it, ``largest`` is the segment's."""

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def largest(self) -> int | None:
        return int(self.timestamps[-1]) if len(self.timestamps) else None

    def floor(self, timestamp_ms: int) -> int | None:
        """Return the offset of the last entry at or below ``timestamp_ms``, or None."""
        row = int(np.searchsorted(self.timestamps, timestamp_ms, side="right")) - 1
        return int(self.offsets[row]) if row >= 0 else None


def read_offset_hints(fs: FileSystem, path: Path, base_offset: int, log_size: int) -> OffsetHints:
    """Return the hints of an ``.index``, none if it is missing. Positions must be below ``log_size`` bytes."""
    entries, _ = _read_prefix(fs, path, _OFFSET_ENTRY, ("offset", "position"))
    positions = entries["position"].astype(np.int64)
    # Kafka writes no entry for position 0, so zeros are preallocation even at the beginning.
    count = int(np.searchsorted(positions, log_size))
    first = 1 if count and positions[0] == 0 else 0
    return OffsetHints(entries["offset"][first:count].astype(np.int64) + base_offset, positions[first:count])


def read_time_hints(fs: FileSystem, path: Path, base_offset: int) -> TimeHints:
    """Return the hints of a ``.timeindex``, none if it is missing."""
    entries, complete = _read_prefix(fs, path, _TIME_ENTRY, ("timestamp", "offset"))
    if len(entries) and not entries["timestamp"][0] and not entries["offset"][0]:
        # Preallocation, or a single record of 1970: readers of the batches find the right result either way.
        entries, complete = entries[1:], False
    offsets = entries["offset"].astype(np.int64) + base_offset
    return TimeHints(entries["timestamp"].astype(np.int64), offsets, complete)


def _read_prefix(
    fs: FileSystem, path: Path, entry: np.dtype[np.void], columns: tuple[str, str]
) -> tuple[NDArray[np.void], bool]:
    """Return the longest valid prefix, and True if it is the complete file.

    Values are not negative, the first column strictly ascends, and the second does not fall.
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
