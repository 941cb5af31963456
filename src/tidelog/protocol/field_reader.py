"""A reader of a message's fields, one after the other, for messages with their own codec.

Kafka has two encodings of lengths. The classic one has 16 or 32 bits, and -1 for null. *Flexible* versions have the
compact one: an unsigned varint, one more than the length, and 0 for null. Their structs end with tagged fields.

A ``message_reader`` raises MalformedMessageError for a message that ends early, a negative length, or an endless
varint. Item counts are not trusted: too many are refused before the first item is read. Thread rule: one thread per
reader. Source: Kafka's protocol guide, KIP-482.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache, wraps
from struct import Struct
from typing import TypeVar
from uuid import UUID

from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.request_size import MOST_ITEMS, MOST_STRING_BYTES, require_few_items, require_short_string

T = TypeVar("T")

_INT8, _INT16, _INT32, _INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
_UUID_BYTES = 16
_VARINT_BYTES = 5
_NO_ID = bytes(_UUID_BYTES)


@lru_cache(maxsize=4096)
def topic_id_of(raw: bytes) -> UUID | None:
    """Return the id, or None for the zero id. It is cached: a UUID costs more than the rest of a topic."""
    return None if raw == _NO_ID else UUID(bytes=raw)


def message_reader(read: Callable[[int, memoryview], T]) -> Callable[[int, memoryview], T]:
    """Decorate a function of version and bytes, so that invalid bytes raise MalformedMessageError."""

    @wraps(read)
    def checked(version: int, body: memoryview) -> T:
        try:
            return read(version, body)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise MalformedMessageError(f"{read.__name__} of version {version}: {error}") from error

    return checked


class FieldReader:
    __slots__ = ("_data", "_end", "_items", "_most_items", "is_flexible", "position")

    def __init__(self, data: memoryview, *, is_flexible: bool, most_items: int = MOST_ITEMS) -> None:
        self._data = data
        self._end = len(data)
        self._items = 0
        self._most_items = most_items
        self.position = 0
        self.is_flexible = is_flexible

    @property
    def left(self) -> int:
        """The number of unread bytes. It is negative if ``skip`` went past the end."""
        return self._end - self.position

    def skip(self, size: int) -> None:
        """Skip ``size`` bytes. Skipping past the end is no error, but a later read there is."""
        self.position += size

    def int8(self) -> int:
        value: int = _INT8.unpack_from(self._data, self.position)[0]
        self.position += 1
        return value

    def int16(self) -> int:
        value: int = _INT16.unpack_from(self._data, self.position)[0]
        self.position += 2
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack_from(self._data, self.position)[0]
        self.position += 4
        return value

    def int64(self) -> int:
        value: int = _INT64.unpack_from(self._data, self.position)[0]
        self.position += 8
        return value

    def numbers(self, layout: Struct) -> tuple[int, ...]:
        """Read several fixed fields at once."""
        values = layout.unpack_from(self._data, self.position)
        self.position += layout.size
        return values

    def varint(self) -> int:
        """Read an unsigned varint of at most 32 bits."""
        data, position = self._data, self.position
        byte = data[position]
        if byte < 0x80:
            self.position = position + 1
            return byte
        value, shift = byte & 0x7F, 7
        for at in range(position + 1, position + _VARINT_BYTES):
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = at + 1
                return value
            shift += 7
        raise MalformedMessageError("a varint of more than 32 bits", position=position)

    def uuid(self) -> UUID | None:
        """Read an id. Return None for the zero id."""
        return topic_id_of(bytes(self._take(_UUID_BYTES)))

    def string(self) -> str:
        """Read a string. Raise MalformedMessageError if it is null."""
        value = self.nullable_string()
        if value is None:
            raise MalformedMessageError("null for a string that cannot be null", position=self.position)
        return value

    def nullable_string(self) -> str | None:
        length = self.varint() - 1 if self.is_flexible else self.int16()
        if length > MOST_STRING_BYTES:
            require_short_string(length)
        return None if length == -1 else str(self._take(length), "utf-8")

    def nullable_bytes(self) -> bytearray | None:
        """Read bytes, and return a copy."""
        length = self.varint() - 1 if self.is_flexible else self.int32()
        return None if length == -1 else bytearray(self._take(length))

    def nullable_view(self) -> memoryview | None:
        """Read bytes, and return a view of the message."""
        length = self.varint() - 1 if self.is_flexible else self.int32()
        return None if length == -1 else self._take(length)

    def array(self, item: Callable[[], T]) -> list[T]:
        """Read an array. Raise MalformedMessageError if it is null."""
        items = self.nullable_array(item)
        if items is None:
            raise MalformedMessageError("an array of -1 items", position=self.position)
        return items

    def nullable_array(self, item: Callable[[], T]) -> list[T] | None:
        length = self.varint() - 1 if self.is_flexible else self.int32()
        if length == -1:
            return None
        if length < 0:
            raise MalformedMessageError(f"an array of {length} items", position=self.position)
        self.expect_items(length)
        return [item() for _ in range(length)]

    def expect_items(self, count: int) -> None:
        """Count items. Raise MalformedMessageError if the message has too many so far."""
        self._items += count
        if self._items > self._most_items:
            require_few_items(self._items, self._most_items)

    def tagged_fields(self, known: dict[int, Callable[[], None]] | None = None) -> None:
        """Read the end of a struct in a flexible version: ``known`` fields are read by tag, and others skipped."""
        if not self.is_flexible:
            return
        if self._data[self.position] == 0:  # none, as in almost every message
            self.position += 1
            return
        for _ in range(self.varint()):
            tag, size = self.varint(), self.varint()
            end = self.position + size
            if end > self._end:
                raise MalformedMessageError("a tagged field ends after the end of its message", position=self.position)
            if known is not None and tag in known:
                known[tag]()
            self.position = end

    def _take(self, length: int) -> memoryview:
        start, end = self.position, self.position + length
        if length < 0 or end > self._end:
            raise MalformedMessageError(
                f"a field announces {length} bytes, but {self._end - start} are left", position=start
            )
        self.position = end
        return self._data[start:end]
