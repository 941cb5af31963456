"""The searchable fields of index entries: the entry's size, the field's start and width."""

from __future__ import annotations

import enum


class IndexKey(enum.IntEnum):
    """Entries are 8 bytes in an offset index, 12 in a time index; integers are big-endian and signed."""

    OFFSET = 0
    """The relative offset in an offset index."""
    POSITION = 1
    """The byte position in an offset index."""
    TIMESTAMP = 2
    """The timestamp in a time index."""
    TIME_OFFSET = 3
    """The relative offset in a time index."""

    @property
    def entry_size(self) -> int:
        return 8 if self <= IndexKey.POSITION else 12

    @property
    def start(self) -> int:
        """The field's first byte in the entry."""
        return (0, 4, 0, 8)[self]

    @property
    def width(self) -> int:
        return 8 if self is IndexKey.TIMESTAMP else 4
