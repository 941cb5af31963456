"""The frames around storage records, which name the message in a record of an internal topic.

The group, transaction and share coordinators use this layout (Kafka's ``CoordinatorRecordSerde``)::

    key   = record type int16 | key message, version 0
    value = version int16     | value message          (a null value deletes the key)

The metadata log and remote log metadata use this one (Kafka's ``AbstractApiMessageSerde``)::

    value = frame version varint (1) | API key varint | version varint | message

Decoding never guesses: a type or version that the tables do not know is returned as raw bytes without fields
(``DecodedRecord.raw``), so that a newer broker's log can still be listed. Pure. Thread rule: any thread.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.model import CorruptRecordError
from tidelog.record.internal_records.decoder import UNDERFLOW, decode_message, read_unsigned_varint
from tidelog.record.internal_records.encoder import encode_message, unsigned_varint
from tidelog.record.internal_records.schema import Message

METADATA_FRAME_VERSION = 1


@dataclass(frozen=True, slots=True)
class KeyValueMessages:
    """The key and value messages of a coordinator record type."""

    key: Message
    value: Message


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A key or value: its message's name (None if unknown), number, version, and its fields or else its raw bytes."""

    name: str | None
    number: int
    version: int
    fields: dict[str, Any] | None
    raw: bytes | None = None


def pair_up(messages: Mapping[str, Message]) -> dict[int, KeyValueMessages]:
    """Index a table of ``…Key`` and ``…Value`` messages by record type."""
    return {
        message.api_key: KeyValueMessages(message, messages[name.removesuffix("Key") + "Value"])
        for name, message in messages.items()
        if name.endswith("Key")
    }


def by_api_key(messages: Mapping[str, Message]) -> dict[int, Message]:
    return {message.api_key: message for message in messages.values()}


def decode_key(types: Mapping[int, KeyValueMessages], key: bytes) -> DecodedRecord:
    """Decode the key of a coordinator record. Raise CorruptRecordError if a known type's bytes do not fit."""
    number = read_prefix(key)
    pair = types.get(number)
    if pair is None:
        return DecodedRecord(None, number, 0, None, key)
    return DecodedRecord(pair.key.name, number, 0, decode_message(pair.key, key, 0, 2)[0])


def decode_value(types: Mapping[int, KeyValueMessages], number: int, value: bytes) -> DecodedRecord:
    """Decode the value for a key of record type ``number``; raw if type or version are unknown."""
    version = read_prefix(value)
    pair = types.get(number)
    if pair is None:
        return DecodedRecord(None, number, version, None, value)
    if version not in pair.value.versions:
        return DecodedRecord(pair.value.name, number, version, None, value)
    return DecodedRecord(pair.value.name, number, version, decode_message(pair.value, value, version, 2)[0])


def encode_key(types: Mapping[int, KeyValueMessages], number: int, fields: Mapping[str, Any]) -> bytes:
    return struct.pack(">h", number) + encode_message(types[number].key, fields, 0)


def encode_value(types: Mapping[int, KeyValueMessages], number: int, fields: Mapping[str, Any], version: int) -> bytes:
    return struct.pack(">h", version) + encode_message(types[number].value, fields, version)


def decode_framed(types: Mapping[int, Message], value: bytes) -> DecodedRecord:
    """Decode a record of the metadata log (or remote log metadata); raw if frame, type or version are unknown."""
    try:
        frame, position = read_unsigned_varint(value, 0)
        number, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
    except IndexError:
        raise CorruptRecordError(UNDERFLOW, position=0) from None
    message = types.get(number) if frame == METADATA_FRAME_VERSION else None
    if message is None or version not in message.versions:
        return DecodedRecord(message.name if message else None, number, version, None, value)
    fields, position = decode_message(message, value, version, position)
    if position != len(value):
        raise CorruptRecordError(f"Found {len(value) - position} byte(s) of garbage after {number}", position=position)
    return DecodedRecord(message.name, number, version, fields)


def encode_framed(message: Message, fields: Mapping[str, Any], version: int) -> bytes:
    head = unsigned_varint(METADATA_FRAME_VERSION) + unsigned_varint(message.api_key) + unsigned_varint(version)
    return head + encode_message(message, fields, version)


def read_prefix(data: bytes) -> int:
    """Return the int16 at the start of a coordinator's key or value. Raise CorruptRecordError if it is missing."""
    if len(data) < 2:
        raise CorruptRecordError(UNDERFLOW, position=0)
    return int.from_bytes(data[:2], "big", signed=True)
