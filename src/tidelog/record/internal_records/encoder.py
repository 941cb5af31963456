"""The encoder of storage records: from fields to bytes, over the same tables as the decoder.

``encode_message(message, values, version)`` takes a dict by Kafka's field names (uuid as Kafka's 22 characters). A
missing name takes the field's default. Fields of other versions are not written. A field of another version must
have its default, as in Kafka, because another value would be lost. Tagged fields are written sorted by tag,
and only if they differ from their default. It is slower than the decoder: a coordinator writes a few records a second.
Pure. Thread rule: any thread.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any

from tidelog.model import InvalidRecordError, UnsupportedFormatError
from tidelog.record.internal_records.schema import LONGEST_STRING, Field, Message

_FIXED = {
    "boolean": ">?",
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "uint32": ">I",
    "float64": ">d",
}


def encode_message(message: Message, values: Mapping[str, Any], version: int) -> bytes:
    """Encode ``message`` in ``version``.

    Raise UnsupportedFormatError if the version is unknown or cannot hold a value. Raise InvalidRecordError if a value
    does not fit.
    """
    if version not in message.versions:
        raise UnsupportedFormatError(f"{message.name} has no version {version}")
    unknown = values.keys() - {field.name for field in message.fields}
    if unknown:
        raise InvalidRecordError(f"{message.name} has no field {', '.join(sorted(unknown))}")
    out = bytearray()
    try:
        _write_struct(out, message.fields, values, version, version in message.flexible)
    except struct.error as error:
        raise InvalidRecordError(f"{message.name}: a number does not fit its field: {error}") from None
    return bytes(out)


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _write_struct(
    out: bytearray, fields: tuple[Field, ...], values: Mapping[str, Any], version: int, flexible: bool
) -> None:
    tagged: list[tuple[int, bytes]] = []
    for field in fields:
        value = values.get(field.name, field.default)
        if version not in field.versions:
            if value != field.default:
                raise UnsupportedFormatError(f"version {version} cannot hold {field.name} = {value!r}")
        elif field.tag is None:
            _write_field(out, field, value, version, flexible)
        elif value != field.default:
            body = bytearray()
            _write_field(body, field, value, version, flexible)
            tagged.append((field.tag, bytes(body)))
    if flexible:
        out += unsigned_varint(len(tagged))
        for tag, data in sorted(tagged):
            out += unsigned_varint(tag) + unsigned_varint(len(data)) + data


def _write_field(out: bytearray, field: Field, value: Any, version: int, flexible: bool) -> None:
    if value is None and version not in field.nullable:
        raise InvalidRecordError(f"{field.name} may not be null")
    if field.is_array:
        _write_length(out, -1 if value is None else len(value), flexible, ">i")
        for element in value or ():
            _write_element(out, field, element, version, flexible)
    elif field.fields and version in field.nullable:
        if field.tag is not None:
            out.append(0 if value is None else 1)
        else:
            out += struct.pack(">b", -1 if value is None else 1)
        if value is not None:
            _write_element(out, field, value, version, flexible)
    else:
        _write_element(out, field, value, version, flexible)


def _write_element(out: bytearray, field: Field, value: Any, version: int, flexible: bool) -> None:
    if field.fields:
        _write_struct(out, field.fields, value, version, flexible)
    elif field.type in ("string", "bytes"):
        data = value.encode() if isinstance(value, str) else value
        if field.type == "string" and data is not None and len(data) > LONGEST_STRING:
            raise InvalidRecordError(f"{field.name} has {len(data)} bytes, and a string has at most {LONGEST_STRING}")
        _write_length(out, -1 if data is None else len(data), flexible, ">h" if field.type == "string" else ">i")
        out += data or b""
    elif field.type == "uuid":
        out += urlsafe_b64decode(value + "==")
    else:
        out += struct.pack(_FIXED[field.type], value)


def _write_length(out: bytearray, length: int, flexible: bool, plain: str) -> None:
    out += unsigned_varint(length + 1) if flexible else struct.pack(plain, length)
