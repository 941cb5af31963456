"""The fields of index entries that can be searched for: entry size, place and width of each."""

from __future__ import annotations

import enum


class IndexKey(enum.IntEnum):
    """Entries are 8 bytes in an offset index, 12 in a time index; integers are big-endian and signed."""

    OFFSET = 0
    """Relative offset in an offset index."""
    POSITION = 1
    """Byte position in an offset index."""
    TIMESTAMP = 2
    """Timestamp in a time index."""
    TIME_OFFSET = 3
    """Relative offset in a time index."""

    @property
    def entry_size(self) -> int:
        return 8 if self <= IndexKey.POSITION else 12

    @property
    def start(self) -> int:
        """Byte of the entry that the field begins at."""
        return (0, 4, 0, 8)[self]

    @property
    def width(self) -> int:
        return 8 if self is IndexKey.TIMESTAMP else 4
