"""The bytes of two batches around the first byte that differs, in lines of 16 bytes side by side.

Reading is bounded: a batch is read in pieces up to the first difference, and then the few lines around it. Positions
count from the start of the batch. Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tidelog.inspect.compare.difference import BatchPlace, Difference
from tidelog.storage.fs import FileSystem

LINE_BYTES: Final = 16
_LINES_BEFORE: Final = 4
_LINES_AFTER: Final = 4
_PIECE_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteLine:
    """Up to 16 bytes of each batch from ``position`` on. A side is empty where its batch has ended or is missing."""

    position: int
    reference: bytes
    replica: bytes

    @property
    def different(self) -> frozenset[int]:
        """The positions in the line whose bytes differ."""
        longest = max(len(self.reference), len(self.replica))
        return frozenset(at for at in range(longest) if self.reference[at : at + 1] != self.replica[at : at + 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceBytes:
    """``byte`` is the first position that differs, or None if one batch is missing or all bytes are equal."""

    byte: int | None
    lines: tuple[ByteLine, ...]


def difference_bytes(fs: FileSystem, found: Difference) -> DifferenceBytes:
    """Read the lines around the first differing byte, or the first lines of a batch that only one replica has.

    Raise FileMissingError or StorageError if a file cannot be read.
    """
    places = found.left, found.right
    sizes = [0 if place is None else place.row.size for place in places]
    byte = found.byte if found.byte is not None else _first_differing(fs, found.left, found.right)
    middle = 0 if byte is None else byte // LINE_BYTES
    first = max(0, middle - _LINES_BEFORE) * LINE_BYTES
    end = min(max(sizes), (middle + _LINES_AFTER + 1) * LINE_BYTES)
    data = [_read(fs, place, first, end) for place in places]
    lines = tuple(
        ByteLine(
            position=start,
            reference=data[0][start - first : start - first + LINE_BYTES],
            replica=data[1][start - first : start - first + LINE_BYTES],
        )
        for start in range(first, end, LINE_BYTES)
    )
    return DifferenceBytes(byte=byte, lines=lines)


def _first_differing(fs: FileSystem, left: BatchPlace | None, right: BatchPlace | None) -> int | None:
    if left is None or right is None:
        return None
    size = max(left.row.size, right.row.size)
    for start in range(0, size, _PIECE_BYTES):
        ours, theirs = (_read(fs, place, start, start + _PIECE_BYTES) for place in (left, right))
        if ours != theirs:
            common = min(len(ours), len(theirs))
            unequal = np.frombuffer(ours, np.uint8, common) != np.frombuffer(theirs, np.uint8, common)
            return start + (int(np.argmax(unequal)) if unequal.any() else common)
    return None


def _read(fs: FileSystem, place: BatchPlace | None, start: int, end: int) -> bytes:
    """Return the bytes of a batch in ``[start, end)``, fewer at its end."""
    if place is None or start >= place.row.size:
        return b""
    with fs.open(place.path) as file:
        return bytes(file.pread(min(end, place.row.size) - start, place.row.position + start))
