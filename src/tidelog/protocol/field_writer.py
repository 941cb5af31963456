"""A writer of a message's fields, one after the other; ``field_reader`` describes the two encodings.

Thread rule: one thread per writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from uuid import UUID

_INT16, _INT32 = Struct(">h"), Struct(">i")
_NO_ID = bytes(16)


class FieldWriter:
    """A writer. ``buffer`` has the bytes so far; callers may pack fixed fields directly into it."""

    __slots__ = ("buffer", "is_flexible")

    def __init__(self, *, is_flexible: bool) -> None:
        self.buffer = bytearray()
        self.is_flexible = is_flexible

    def varint(self, value: int) -> None:
        """Write an unsigned varint."""
        while value >= 0x80:
            self.buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self.buffer.append(value)

    def string(self, value: str | None) -> None:
        data = None if value is None else value.encode()
        length = -1 if data is None else len(data)
        if self.is_flexible:
            self.varint(length + 1)
        else:
            self.buffer += _INT16.pack(length)
        self.buffer += data or b""

    def uuid(self, value: UUID | None) -> None:
        self.buffer += _NO_ID if value is None else value.bytes

    def length(self, count: int) -> None:
        """Write the length of an array or of bytes; -1 means null."""
        if self.is_flexible:
            self.varint(count + 1)
        else:
            self.buffer += _INT32.pack(count)

    def tagged_fields(self, fields: Sequence[tuple[int, bytes]] = ()) -> None:
        """Write the end of a struct: tags, ascending, with their data. Write nothing if the version is not flexible."""
        if self.is_flexible:
            if not fields:
                self.buffer.append(0)
                return
            self.varint(len(fields))
            for tag, data in fields:
                self.varint(tag)
                self.varint(len(data))
                self.buffer += data
