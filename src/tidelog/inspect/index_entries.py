"""The entries of a segment's index files as they are, also of damaged or preallocated files.

An index of an active segment ends in zeros, which are no entries. An entry that cannot be right by itself has a
``fault``; ``verify`` compares entries with the batches. Files are read up to ``MOST_BYTES``. Reads only. Thread rule:
any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tidelog.model import FileMissingError, IndexCorruptError
from tidelog.storage.fs import FileSystem
from tidelog.storage.index import AbortedTxn, OffsetIndexReader, TimeIndexReader, TransactionIndexReader

MOST_BYTES: Final = 16 * 1024 * 1024
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """The sizes of an index file in bytes. ``used`` is without the zeros at its end."""

    size: int = 0
    used: int = 0
    is_missing: bool = False
    is_shortened: bool = False
    """True if the file is larger than the part that was read."""
    odd_bytes: int = 0
    """The bytes after the last complete entry."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffsetEntries:
    """The entries of an ``.index``: absolute offsets, and positions in the ``.log``."""

    file: IndexFile
    offsets: Int64s
    positions: Int64s

    def __len__(self) -> int:
        return len(self.offsets)

    def gaps(self) -> Int64s:
        """Return the bytes between each entry's position and that of the entry before it."""
        return np.diff(self.positions, prepend=np.int64(0))

    def fault(self, number: int, log_size: int) -> str | None:
        """Return a clause about an entry that cannot be right, or None."""
        offset, position = int(self.offsets[number]), int(self.positions[number])
        if not 0 < position < log_size:
            return "the position lies outside the .log"
        if number and not (offset > self.offsets[number - 1] and position > self.positions[number - 1]):
            return "it does not ascend"
        return None

    def valid(self, log_size: int) -> OffsetEntries:
        """Return the entries before the first entry that cannot be right."""
        fits = (self.positions > 0) & (self.positions < log_size)
        fits[1:] &= (np.diff(self.offsets) > 0) & (np.diff(self.positions) > 0)
        count = len(fits) if fits.all() else int(np.argmin(fits))
        return OffsetEntries(file=self.file, offsets=self.offsets[:count], positions=self.positions[:count])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeEntries:
    """The entries of a ``.timeindex``: timestamps in ms, and absolute offsets."""

    file: IndexFile
    timestamps: Int64s
    offsets: Int64s

    def __len__(self) -> int:
        return len(self.timestamps)

    def fault(self, number: int) -> str | None:
        """Return a clause about an entry that cannot be right, or None."""
        if number and not self.timestamps[number] > self.timestamps[number - 1]:
            return "the timestamp does not ascend"
        if number and self.offsets[number] < self.offsets[number - 1]:
            return "the offset is below the one before"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEntries:
    """The entries of a ``.txnindex`` up to the first that cannot be read, which ``problem`` is about."""

    file: IndexFile
    entries: Sequence[AbortedTxn] = field(default=())
    problem: str = ""


def read_offset_entries(fs: FileSystem, path: Path, base_offset: int) -> OffsetEntries:
    """Read an ``.index``. A missing file has no entries."""
    data, file = _read(fs, path, OffsetIndexReader.ENTRY_SIZE)
    offsets, positions = OffsetIndexReader(data, base_offset, path=path).entries()
    return OffsetEntries(file=file, offsets=offsets, positions=positions)


def read_time_entries(fs: FileSystem, path: Path, base_offset: int) -> TimeEntries:
    """Read a ``.timeindex``. A missing file has no entries."""
    data, file = _read(fs, path, TimeIndexReader.ENTRY_SIZE)
    timestamps, offsets = TimeIndexReader(data, base_offset, path=path).entries()
    return TimeEntries(file=file, timestamps=timestamps, offsets=offsets)


def read_transaction_entries(fs: FileSystem, path: Path, base_offset: int) -> TransactionEntries:
    """Read a ``.txnindex``. A missing file has no entries."""
    data, file = _read(fs, path, TransactionIndexReader.ENTRY_SIZE)
    entries: list[AbortedTxn] = []
    problem = ""
    try:
        entries.extend(TransactionIndexReader(data, base_offset, path=path))
    except IndexCorruptError as error:
        problem = error.message
    return TransactionEntries(file=file, entries=entries, problem=problem)


def _read(fs: FileSystem, path: Path, entry_size: int) -> tuple[bytes, IndexFile]:
    try:
        with fs.open(path) as file:
            size = file.size
            data = file.pread(min(size, MOST_BYTES), 0)
    except FileMissingError:
        return b"", IndexFile(is_missing=True)
    used = -(-len(data.rstrip(b"\0")) // entry_size) * entry_size
    kept = data[:used]
    return kept, IndexFile(
        size=size,
        used=min(used, len(data)),
        is_shortened=size > len(data),
        odd_bytes=size % entry_size,
    )
