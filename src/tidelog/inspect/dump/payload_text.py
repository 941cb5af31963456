"""The text that ``kafka-dump-log`` prints after ``key:`` and ``payload:`` for each of its decoders.

A PayloadText takes offset, key and value of one record and returns two texts. None prints nothing. The decoders of
internal topics never fail on bad bytes: they print the same sentence as Kafka. Two cases end Kafka's dump with an
exception and raise CorruptRecordError here: a coordinator's record without a key, and too few bytes for an integer. The
functions are pure. Thread rule: any thread. Source: Kafka's ``DumpLogSegments``, ``CoordinatorRecordSerde``,
``MetadataRecordSerde``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from tidelog.inspect.dump.options import KafkaFormatOptions, PayloadDecoder, ValueClass
from tidelog.inspect.dump.remote_text import remote_metadata_text
from tidelog.model import CorruptRecordError
from tidelog.record.internal_records.control_tables import CONSUMER_ASSIGNMENT, CONSUMER_SUBSCRIPTION
from tidelog.record.internal_records.decoder import UNDERFLOW, decode_message, read_unsigned_varint
from tidelog.record.internal_records.frames import METADATA_FRAME_VERSION, KeyValueMessages, read_prefix
from tidelog.record.internal_records.group_tables import GROUP_TYPES
from tidelog.record.internal_records.json_text import kafka_json
from tidelog.record.internal_records.metadata_tables import METADATA_TYPES, TYPE_NAMES
from tidelog.record.internal_records.remote_tables import REMOTE_LOG_TYPES
from tidelog.record.internal_records.schema import Message
from tidelog.record.internal_records.share_tables import SHARE_TYPES
from tidelog.record.internal_records.text import java_text
from tidelog.record.internal_records.transaction_tables import TRANSACTION_TYPES

PayloadText = Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]

COORDINATOR_TYPES = {
    PayloadDecoder.OFFSETS: GROUP_TYPES,
    PayloadDecoder.TRANSACTION_LOG: TRANSACTION_TYPES,
    PayloadDecoder.SHARE_GROUP_STATE: SHARE_TYPES,
}
_CACHED_KEYS = 65_536
_UNKNOWN_ID = "org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id"
_NO_VALUE = (
    'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
    '"org.apache.kafka.common.record.Record.value()" is null'
)


def payload_text(options: KafkaFormatOptions) -> PayloadText | None:
    """Return the function for the options, or None if key and value are both plain strings (the caller decodes in
    bulk)."""
    types = COORDINATOR_TYPES.get(options.decoder)
    if types is not None:
        return _coordinator_text(types)
    if options.decoder is PayloadDecoder.CLUSTER_METADATA:
        return _cluster_metadata_text
    if options.decoder is PayloadDecoder.REMOTE_LOG_METADATA:
        return _remote_log_metadata_text
    key_class = options.key_class or ValueClass.STRING
    value_class = options.value_class or ValueClass.STRING
    if key_class is value_class is ValueClass.STRING:
        return None
    key_text, value_text = _class_text(key_class), _class_text(value_class)

    def text(offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        return None if key is None else key_text(key, offset), None if value is None else value_text(value, offset)

    return text


def _class_text(value_class: ValueClass) -> Callable[[bytes, int], str]:
    if value_class is ValueClass.STRING:
        return lambda data, _offset: java_text(data)
    layout = struct.Struct(">i" if value_class is ValueClass.INTEGER else ">q")

    def text(data: bytes, offset: int) -> str:
        if len(data) < layout.size:
            raise CorruptRecordError(
                f"{len(data)} bytes are too few for the type {value_class.name.lower()}", offset=offset
            )
        return str(layout.unpack_from(data)[0])

    return text


def _coordinator_text(types: Mapping[int, KeyValueMessages]) -> PayloadText:
    # Segments of a compacted topic hold the same keys many times.
    key_text = lru_cache(_CACHED_KEYS)(partial(_key_text, types))

    def text(offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        if key is None:
            raise CorruptRecordError("cannot be read with the decoder asked for: the record has no key", offset=offset)
        try:
            pair, key_shown = key_text(key)
            if pair is None:
                return f"Unknown record type {read_prefix(key)} at offset {offset}, skipping.", None
            return key_shown, "<DELETE>" if value is None else _value_text(pair, value)
        except CorruptRecordError as error:
            return f"Error at offset {offset}, skipping. {error.message}", None

    return text


def _key_text(types: Mapping[int, KeyValueMessages], key: bytes) -> tuple[KeyValueMessages | None, str]:
    """Return the messages that the key's type names (None for an unknown type), and the key's text."""
    number = _version(key, "key")
    pair = types.get(number)
    if pair is None:
        return None, ""
    fields = _message(pair.key, key, 0, number, "key")
    return pair, f'{{"type":"{number}","data":{kafka_json(fields)}}}'


def _value_text(pair: KeyValueMessages, value: bytes) -> str:
    version = _version(value, "value")
    if version not in pair.value.versions:
        raise CorruptRecordError(f"Found an unknown record version {version} for {pair.value.api_key} type")
    fields = _message(pair.value, value, version, version, "value")
    if pair.value.name == "GroupMetadataValue":
        open_consumer_protocol(fields)
    return f'{{"version":"{version}","data":{kafka_json(fields)}}}'


def _version(data: bytes, what: str) -> int:
    try:
        return read_prefix(data)
    except CorruptRecordError:
        raise CorruptRecordError(f"Could not read version from {what}'s buffer.") from None


def _message(message: Message, data: bytes, version: int, shown_version: int, what: str) -> dict[str, Any]:
    try:
        return decode_message(message, data, version, 2)[0]
    except CorruptRecordError as error:
        reason = "null" if error.message is UNDERFLOW else error.message
        raise CorruptRecordError(
            f"Could not read record with version {shown_version} from {what}'s buffer due to: {reason}."
        ) from None


def open_consumer_protocol(group: dict[str, Any]) -> None:
    """Replace the bytes of members' subscriptions and assignments by their fields if they can be decoded."""
    if group["protocolType"] != "consumer":
        return
    for member in group["members"]:
        for name, message in (("subscription", CONSUMER_SUBSCRIPTION), ("assignment", CONSUMER_ASSIGNMENT)):
            try:
                member[name] = decode_message(message, member[name], read_prefix(member[name]), 2)[0]
            except CorruptRecordError:
                pass  # Kafka keeps the bytes too


def _cluster_metadata_text(offset: int, _key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    try:
        number, version, fields = _framed(METADATA_TYPES, value or b"")
    except CorruptRecordError as error:
        return None, f"Error at {offset}, skipping. {error.message}"
    return None, f'{{"type":"{TYPE_NAMES[number]}","version":{version},"data":{kafka_json(fields)}}}'


def _remote_log_metadata_text(offset: int, _key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    try:
        if value is None:
            raise CorruptRecordError(_NO_VALUE)
        number, _, fields = _framed(REMOTE_LOG_TYPES, value)
        return None, remote_metadata_text(REMOTE_LOG_TYPES[number].name, fields)
    except CorruptRecordError as error:
        return None, f"Error at offset {offset}, skipping. {error.message}"


def _framed(types: Mapping[int, Message], value: bytes) -> tuple[int, int, dict[str, Any]]:
    """Return type, version and fields of a framed record. Raise CorruptRecordError with Kafka's sentence."""
    frame, position = _frame_number(value, 0, "frame version")
    if frame == 0:
        raise CorruptRecordError(
            "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release "
            "of KRaft in 2.8 to newer versions are not supported."
        )
    if frame != METADATA_FRAME_VERSION:
        raise CorruptRecordError(
            f"Could not deserialize metadata record due to unknown frame version {frame}"
            f"(only frame version {METADATA_FRAME_VERSION} is supported)"
        )
    number, position = _frame_number(value, position, "type")
    version, position = _frame_number(value, position, "version")
    message = types.get(number)
    if message is None:
        raise CorruptRecordError(f"{_UNKNOWN_ID} {number}")
    try:
        fields, position = decode_message(message, value, version, position)
    except CorruptRecordError:
        raise CorruptRecordError(f"Failed to deserialize record with type {number}") from None
    if position < len(value):
        raise CorruptRecordError(f"Found {len(value) - position} byte(s) of garbage after {number}")
    return number, version, fields


def _frame_number(value: bytes, position: int, what: str) -> tuple[int, int]:
    try:
        number, position = read_unsigned_varint(value, position)
    except (IndexError, CorruptRecordError):
        raise CorruptRecordError(f"Error while reading {what}") from None
    if number > 0x7FFF:
        raise CorruptRecordError(f"Value for {what} was too large.")
    # Java casts the number to a short, so values from 0x8000 on are negative.
    return (number + 0x8000) % 0x10000 - 0x8000, position
