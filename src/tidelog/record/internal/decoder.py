"""Bytes of a storage record -> its fields as plain Python values.

A message of one version is turned once into a tree of small readers ``read(data, position) -> (value, position)``
and kept. Values: int, bool, float, str, bytes, None, list, dict by Kafka's field names in the order of its table; a
uuid is Kafka's 22 characters of base64. A tagged field that is absent or equal to its default is left out, as
Kafka's JSON does; fields of other versions are left out too. Unknown tagged fields are skipped.

Errors: CorruptRecordError with Kafka's own sentence where it has one, ``UNDERFLOW`` where the bytes end too soon.
Source of the rules: KIP-482, and the classes Kafka generates. Pure; any thread.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from tidelog.model import CorruptRecordError
from tidelog.record.internal.schema import Field, Message
from tidelog.record.internal.text import java_text

Reader = Callable[[bytes, int], tuple[Any, int]]

UNDERFLOW = "the bytes end before the record does"

_FIXED = {
    "boolean": struct.Struct(">b"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
    "uint16": struct.Struct(">H"),
    "uint32": struct.Struct(">I"),
    "float64": struct.Struct(">d"),
}


class _Version(NamedTuple):
    number: int
    flexible: bool
    known: bool


def decode_message(message: Message, data: bytes, version: int, position: int = 0) -> tuple[dict[str, Any], int]:
    """Read ``message`` at ``data[position:]``; return its fields and the position behind it.

    A version above the table's is read like the newest one known, as Kafka's generated classes do: ask
    ``version in message.versions`` first where that is not wanted. CorruptRecordError where the bytes do not fit.
    """
    value, position = message_reader(message, version)(data, position)
    return value, position


@cache
def message_reader(message: Message, version: int) -> Reader:
    """The compiled reader of one version; may raise struct.error for bytes that end too soon (see ``checked``)."""
    chosen = _Version(version, version in message.flexible, version in message.versions)
    read = _struct_reader(message.fields, chosen)

    def checked(data: bytes, position: int) -> tuple[Any, int]:
        try:
            return read(data, position)
        except (struct.error, IndexError):
            raise CorruptRecordError(UNDERFLOW, position=position) from None

    return checked


def read_unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits; CorruptRecordError past five bytes, IndexError past the end."""
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for index in range(1, 5):
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            value &= 0xFFFFFFFF
            # Java holds it in an int: lengths past 2^31 come out negative.
            return value - (1 << 32) if value >> 31 else value, position + index + 1
    raise CorruptRecordError(
        f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {value & 0xFFFFFFFF:x}",
        position=position,
    )


def _struct_reader(fields: tuple[Field, ...], version: _Version) -> Reader:
    """All fields of a structure: the plain ones in order, then the tagged section where the version is flexible."""
    present = [field for field in fields if version.number in field.versions]
    plain = [(field.name, _field_reader(field, version)) for field in present if field.tag is None]
    if not version.flexible:
        return _plain_reader(plain)
    tagged = {f.tag: (f.name, _field_reader(f, version), f.default) for f in present if f.tag is not None}
    order = [field.name for field in fields]

    def read(data: bytes, position: int) -> tuple[Any, int]:
        value = {}
        for name, read_field in plain:
            value[name], position = read_field(data, position)
        count, position = read_unsigned_varint(data, position)
        if not count:
            return value, position
        for _ in range(count):
            tag, position = read_unsigned_varint(data, position)
            size, position = read_unsigned_varint(data, position)
            known = tagged.get(tag)
            if known is None:
                position += size
                if size < 0 or position > len(data):
                    raise CorruptRecordError(UNDERFLOW, position=position)
                continue
            name, read_field, default = known
            field_value, position = read_field(data, position)
            if field_value != default:
                value[name] = field_value
        return {name: value[name] for name in order if name in value}, position

    return read


def _plain_reader(plain: list[tuple[str, Reader]]) -> Reader:
    def read(data: bytes, position: int) -> tuple[Any, int]:
        value = {}
        for name, read_field in plain:
            value[name], position = read_field(data, position)
        return value, position

    return read


def _field_reader(field: Field, version: _Version) -> Reader:
    nullable = version.number in field.nullable
    if field.is_array:
        return _array_reader(field, _element_reader(field, version), version.flexible, nullable)
    if field.type in ("string", "bytes"):
        return _bytes_reader(field, version.flexible, nullable)
    element = _element_reader(field, version)
    if field.fields and nullable:
        return _nullable_struct_reader(element, in_tag=field.tag is not None)
    return element


def _element_reader(field: Field, version: _Version) -> Reader:
    if field.type in ("string", "bytes"):
        return _bytes_reader(field, version.flexible, nullable=False)
    if field.type == "uuid":
        return _read_uuid
    if field.type == "boolean":
        return _read_boolean
    if field.type in _FIXED:
        return _fixed_reader(_FIXED[field.type])
    if not version.known:
        return _refusing_reader(f"Can't read version {version.number} of {field.type}")
    return _struct_reader(field.fields, version)


def _refusing_reader(message: str) -> Reader:
    """Kafka's generated classes check the version in an inner structure, but not in the message itself."""

    def read(data: bytes, position: int) -> tuple[Any, int]:
        raise CorruptRecordError(message, position=position)

    return read


def _fixed_reader(layout: struct.Struct) -> Reader:
    unpack, size = layout.unpack_from, layout.size

    def read(data: bytes, position: int) -> tuple[Any, int]:
        return unpack(data, position)[0], position + size

    return read


def _read_boolean(data: bytes, position: int) -> tuple[bool, int]:
    return data[position] != 0, position + 1


def _read_uuid(data: bytes, position: int) -> tuple[str, int]:
    end = position + 16
    if end > len(data):
        raise CorruptRecordError(UNDERFLOW, position=position)
    return urlsafe_b64encode(data[position:end])[:22].decode(), end


def _length_reader(flexible: bool, plain: struct.Struct) -> Reader:
    """Lengths are written plus one as varints where flexible, else as int16 (strings) or int32; -1 stands for null."""
    if flexible:

        def read(data: bytes, position: int) -> tuple[int, int]:
            length, position = read_unsigned_varint(data, position)
            return length - 1, position

        return read
    return _fixed_reader(plain)


def _bytes_reader(field: Field, flexible: bool, nullable: bool) -> Reader:
    is_string = field.type == "string"
    read_length = _length_reader(flexible, _FIXED["int16" if is_string else "int32"])
    what = f"{field.name} element" if field.is_array else field.name

    def read(data: bytes, position: int) -> tuple[Any, int]:
        length, position = read_length(data, position)
        if length < 0:
            if nullable:
                return None, position
            raise CorruptRecordError(f"non-nullable field {what} was serialized as null", position=position)
        if is_string and length > 0x7FFF:
            raise CorruptRecordError(f"string field {what} had invalid length {length}", position=position)
        end = position + length
        if end > len(data):
            left = len(data) - position
            raise CorruptRecordError(
                f"Error reading byte array of {length} byte(s): only {left} byte(s) available", position=position
            )
        raw = data[position:end]
        return java_text(raw) if is_string else raw, end

    return read


def _array_reader(field: Field, read_element: Reader, flexible: bool, nullable: bool) -> Reader:
    read_length = _length_reader(flexible, _FIXED["int32"])

    def read(data: bytes, position: int) -> tuple[Any, int]:
        count, position = read_length(data, position)
        if count < 0:
            if nullable:
                return None, position
            raise CorruptRecordError(f"non-nullable field {field.name} was serialized as null", position=position)
        left = len(data) - position
        if count > left:
            raise CorruptRecordError(
                f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining.",
                position=position,
            )
        values = []
        for _ in range(count):
            value, position = read_element(data, position)
            values.append(value)
        return values, position

    return read


def _nullable_struct_reader(read_struct: Reader, *, in_tag: bool) -> Reader:
    """A structure that may be null has a marker before it: a signed byte, below 0 for null; in a tag a varint, 0
    for null."""

    def read(data: bytes, position: int) -> tuple[Any, int]:
        if in_tag:
            marker, position = read_unsigned_varint(data, position)
            is_null = marker <= 0
        else:
            is_null, position = data[position] >= 0x80, position + 1
        if is_null:
            return None, position
        return read_struct(data, position)

    return read
