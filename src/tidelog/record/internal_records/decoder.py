"""The decoder of storage records: from bytes to fields as plain Python values.

A message of one version is compiled once into a tree of small readers ``read(data, position) -> (value, position)``
and cached. Values are int, bool, float, str, bytes, None, list, or dict by Kafka's field names in the order of its
table. A uuid is Kafka's 22 characters of base64. A tagged field that is absent or equal to its default is left out, as
in Kafka's JSON. Fields of other versions are left out too. Unknown tagged fields are skipped.

Errors are CorruptRecordError with Kafka's own sentence if it has one, ``UNDERFLOW`` if the bytes end too soon.
Source of the rules: KIP-482, and the classes that Kafka generates. Pure. Thread rule: any thread.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from tidelog.model import CorruptRecordError
from tidelog.record.internal_records.schema import LONGEST_STRING, Field, Message
from tidelog.record.internal_records.text import java_text

Reader = Callable[[bytes, int], tuple[Any, int]]

UNDERFLOW = "the bytes end before the record does"

_FIXED = {
    "boolean": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
}
"""The formats of ``struct``, big-endian."""


class _Version(NamedTuple):
    number: int
    flexible: bool
    known: bool


def decode_message(message: Message, data: bytes, version: int, position: int = 0) -> tuple[dict[str, Any], int]:
    """Read ``message`` at ``data[position:]``; return its fields and the position behind it.

    A version above the table's is read like the newest known one, as in Kafka's generated classes. A caller that does
    not want this must check ``version in message.versions``. Raise CorruptRecordError if the bytes do not fit.
    """
    value, position = message_reader(message, version)(data, position)
    return value, position


@cache
def message_reader(message: Message, version: int) -> Reader:
    """Return the compiled reader of a version, cached. Bytes that end too soon raise CorruptRecordError."""
    chosen = _Version(version, version in message.flexible, version in message.versions)
    read = _struct_reader(message.fields, chosen)

    def checked(data: bytes, position: int) -> tuple[Any, int]:
        try:
            return read(data, position)
        except (struct.error, IndexError):
            raise CorruptRecordError(UNDERFLOW, position=position) from None

    return checked


def read_unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits. Raise CorruptRecordError past five bytes, IndexError past the end."""
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for index in range(1, 5):
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            value &= 0xFFFFFFFF
            # Java stores it in an int, so lengths past 2^31 are negative.
            return value - (1 << 32) if value >> 31 else value, position + index + 1
    raise CorruptRecordError(
        f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {value & 0xFFFFFFFF:x}",
        position=position,
    )


def _struct_reader(fields: tuple[Field, ...], version: _Version) -> Reader:
    """Return a reader for a structure: first its plain fields, then the tagged section in a flexible version."""
    present = [field for field in fields if version.number in field.versions]
    read_plain = _plain_reader([field for field in present if field.tag is None], version)
    if not version.flexible:
        return read_plain
    tagged = {f.tag: (f.name, _field_reader(f, version), f.default) for f in present if f.tag is not None}
    order = [field.name for field in fields]

    def read(data: bytes, position: int) -> tuple[Any, int]:
        value, position = read_plain(data, position)
        count = data[position]
        if not count:
            return value, position + 1
        count, position = read_unsigned_varint(data, position)
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


class _Step(NamedTuple):
    """A run of fixed-size fields (``names``, read at once), or a single field of another kind."""

    names: tuple[str, ...]
    unpack: Callable[[bytes, int], tuple[Any, ...]]
    size: int
    name: str
    read: Reader


def _plain_reader(fields: list[Field], version: _Version) -> Reader:
    """Return a reader for the fields without a tag."""
    steps: list[_Step] = []
    for is_fixed, group in groupby(fields, _is_fixed):
        if is_fixed:
            steps.append(_run_step(list(group)))
        else:
            steps += [_Step((), _no_run, 0, field.name, _field_reader(field, version)) for field in group]

    def read(data: bytes, position: int) -> tuple[Any, int]:
        value: dict[str, Any] = {}
        for names, unpack, size, name, read_field in steps:
            if names:
                value.update(zip(names, unpack(data, position), strict=False))
                position += size
            else:
                value[name], position = read_field(data, position)
        return value, position

    return read


def _run_step(fields: list[Field]) -> _Step:
    layout = struct.Struct(">" + "".join(_FIXED[field.type] for field in fields))
    return _Step(tuple(field.name for field in fields), layout.unpack_from, layout.size, "", _read_uuid)


def _no_run(_data: bytes, _position: int) -> tuple[Any, ...]:
    return ()


def _is_fixed(field: Field) -> bool:
    return field.type in _FIXED and not field.is_array


def _field_reader(field: Field, version: _Version) -> Reader:
    nullable = version.number in field.nullable
    if field.is_array and field.type in _FIXED:
        return _fixed_array_reader(field, version.flexible, nullable)
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
    if field.type in _FIXED:
        return _fixed_reader(struct.Struct(">" + _FIXED[field.type]))
    if not version.known:
        return _refusing_reader(f"Can't read version {version.number} of {field.type}")
    return _struct_reader(field.fields, version)


def _refusing_reader(message: str) -> Reader:
    """Return a reader that refuses: Kafka's generated classes check the version only in an inner structure."""

    def read(data: bytes, position: int) -> tuple[Any, int]:
        raise CorruptRecordError(message, position=position)

    return read


def _fixed_reader(layout: struct.Struct) -> Reader:
    unpack, size = layout.unpack_from, layout.size

    def read(data: bytes, position: int) -> tuple[Any, int]:
        return unpack(data, position)[0], position + size

    return read


def _read_uuid(data: bytes, position: int) -> tuple[str, int]:
    end = position + 16
    if end > len(data):
        raise CorruptRecordError(UNDERFLOW, position=position)
    return urlsafe_b64encode(data[position:end])[:22].decode(), end


def _length_reader(flexible: bool, plain: str) -> Reader:
    """Return a length reader: a varint plus one if flexible, else int16 (strings) or int32; -1 means null."""
    if not flexible:
        return _fixed_reader(struct.Struct(">" + plain))

    def read(data: bytes, position: int) -> tuple[int, int]:
        length = data[position]
        if length < 0x80:
            return length - 1, position + 1
        length, position = read_unsigned_varint(data, position)
        return length - 1, position

    return read


def _bytes_reader(field: Field, flexible: bool, nullable: bool) -> Reader:
    is_string = field.type == "string"
    read_length = _length_reader(flexible, "h" if is_string else "i")
    what = f"{field.name} element" if field.is_array else field.name

    def read(data: bytes, position: int) -> tuple[Any, int]:
        length, position = read_length(data, position)
        end = position + length
        if length < 0:
            if nullable:
                return None, position
            raise CorruptRecordError(f"non-nullable field {what} was serialized as null", position=position)
        if is_string and length > LONGEST_STRING:
            raise CorruptRecordError(f"string field {what} had invalid length {length}", position=position)
        if end > len(data):
            left = len(data) - position
            raise CorruptRecordError(
                f"Error reading byte array of {length} byte(s): only {left} byte(s) available", position=position
            )
        raw = data[position:end]
        return java_text(raw) if is_string else raw, end

    return read


def _count_reader(field: Field, flexible: bool, nullable: bool) -> Reader:
    """Return a reader for an array's length, None for a null array; it is at most the number of bytes left."""
    read_length = _length_reader(flexible, "i")

    def read(data: bytes, position: int) -> tuple[int | None, int]:
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
        return count, position

    return read


def _array_reader(field: Field, read_element: Reader, flexible: bool, nullable: bool) -> Reader:
    read_count = _count_reader(field, flexible, nullable)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        count, position = read_count(data, position)
        if count is None:
            return None, position
        values = []
        for _ in range(count):
            value, position = read_element(data, position)
            values.append(value)
        return values, position

    return read


def _fixed_array_reader(field: Field, flexible: bool, nullable: bool) -> Reader:
    read_count = _count_reader(field, flexible, nullable)
    kind = _FIXED[field.type]
    size = struct.calcsize(">" + kind)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        count, position = read_count(data, position)
        if count is None:
            return None, position
        return list(struct.unpack_from(f">{count}{kind}", data, position)), position + count * size

    return read


def _nullable_struct_reader(read_struct: Reader, *, in_tag: bool) -> Reader:
    """Return a reader for a structure after its null marker: int8 below 0 means null; in a tag, a varint of 0."""

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
