"""Messages of the formats v0 and v1, alone or as a compressed set inside one wrapper message.

::

    offset int64 | size int32 | crc uint32 | magic int8 | attributes int8 | timestamp int64 (v1) |
    key length int32 | key | value length int32 | value
    (length -1: null; size counts from crc; crc is the CRC-32 of all that follows it)

A message with a codec in its attributes is a wrapper: its value is a compressed sequence of messages of the same magic,
and these are not compressed again. An inner message has this offset and timestamp:

===========  =============================================================  ==========================================
magic        offset                                                         timestamp
===========  =============================================================  ==========================================
0            as written inside                                              none
1            wrapper's offset - last inner offset + inner offset            as written inside; the wrapper's if the
             (wrapper's offset 0: as written inside, as some early          wrapper's attributes have log append time
             librdkafka producers did)
===========  =============================================================  ==========================================

A partial message ends a set, since old brokers limited sets to a fetch's size. The codec zstd is not allowed. The
results are views into the given bytes, without copies. Pure. Thread rule: any thread.
Source: Kafka's ``LegacyRecord``, ``AbstractLegacyRecordBatch``; KIP-31, KIP-32.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from tidelog.model import CorruptRecordError, TimestampType
from tidelog.record import attributes as attribute_bits
from tidelog.record import compression
from tidelog.record.batch_header import SMALLEST_LENGTHS
from tidelog.record.codec.limit import MAX_DECOMPRESSED_BYTES

_PREFIX: Final = struct.Struct(">qi")
_HEADER: Final = struct.Struct(">qiIbb")
_SMALLEST: Final = SMALLEST_LENGTHS[0]
_TIMESTAMP: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")


class InvalidWrapperError(CorruptRecordError):
    """A wrapper with impossible contents, though its bytes are valid. Kafka's brokers return INVALID_RECORD."""


class LegacyMessage(NamedTuple):
    """A message with its own ``attributes`` and ``crc``; ``timestamp`` is in ms (-1: none), its type the wrapper's.

    ``crc_ok`` holds for messages inside a wrapper; the outer CRC is not checked here.
    """

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    magic: int
    attributes: int
    key: memoryview | None
    value: memoryview | None
    crc: int
    crc_ok: bool


def read_messages(
    entry: memoryview, *, max_bytes: int = MAX_DECOMPRESSED_BYTES, checked: bool = True
) -> list[LegacyMessage]:
    """Return the message of a shallow ``entry`` (12-byte prefix to last byte), or a wrapper's inner messages.

    The caller checks the shallow CRC (the batch table has it). Raise CorruptRecordError. If not ``checked``, inner
    messages with a codec or a wrong CRC are returned unchanged.
    """
    message = _parse(entry, 0, len(entry), check_crc=False)
    if not attribute_bits.codec_of(message.attributes):
        return [message]
    if message.value is None:
        raise InvalidWrapperError("a compressed wrapper message has no value")
    plain = compression.decompress(
        attribute_bits.codec_of(message.attributes), message.value, magic=message.magic, max_bytes=max_bytes
    )
    messages = _read_set(memoryview(plain))
    if checked:
        _check_inner(messages)
    return _unwrap(message, messages)


def _read_set(plain: memoryview) -> list[LegacyMessage]:
    messages = []
    position = 0
    while len(plain) - position >= _PREFIX.size:
        _, size = _PREFIX.unpack_from(plain, position)
        if size < _SMALLEST:
            raise CorruptRecordError(f"a message inside a wrapper declares {size} bytes; the least is {_SMALLEST}")
        end = position + _PREFIX.size + size
        if end > len(plain):
            break
        messages.append(_parse(plain, position, end, check_crc=True))
        position = end
    if not messages:
        raise InvalidWrapperError("a compressed wrapper message holds no messages")
    return messages


def _check_inner(messages: list[LegacyMessage]) -> None:
    """Check CRC and codec, not magic: old brokers' cleaners put v0 messages into v1 wrappers (KAFKA-4298)."""
    for message in messages:
        if not message.crc_ok:
            raise CorruptRecordError(f"the CRC of a message inside a wrapper is wrong, inner offset {message.offset}")
        if attribute_bits.codec_of(message.attributes):
            raise CorruptRecordError("a message inside a compressed wrapper is compressed itself")


def _unwrap(wrapper: LegacyMessage, messages: list[LegacyMessage]) -> list[LegacyMessage]:
    if wrapper.magic == 0:
        return messages
    shift = wrapper.offset - messages[-1].offset if wrapper.offset else 0
    if shift < 0:
        raise InvalidWrapperError(
            f"a wrapper has the offset {wrapper.offset}, less than the {messages[-1].offset} of the last message inside"
        )
    if wrapper.timestamp_type is TimestampType.LOG_APPEND:
        return [
            inner._replace(
                offset=inner.offset + shift, timestamp=wrapper.timestamp, timestamp_type=TimestampType.LOG_APPEND
            )
            for inner in messages
        ]
    return [inner._replace(offset=inner.offset + shift, timestamp_type=TimestampType.CREATE) for inner in messages]


def _parse(data: memoryview, start: int, end: int, *, check_crc: bool) -> LegacyMessage:
    """Parse the message in ``data[start:end]``; from a set, it has at least a prefix and 14 bytes."""
    if end - start < _PREFIX.size + _SMALLEST:
        raise CorruptRecordError(f"a message has {end - start} bytes; the least is {_PREFIX.size + _SMALLEST}")
    offset, _, crc, magic, attributes = _HEADER.unpack_from(data, start)
    if magic not in (0, 1):
        raise CorruptRecordError(f"a message has the magic {magic}, but only 0 and 1 are possible")
    crc_ok = not check_crc or zlib.crc32(data[start + 16 : end]) == crc
    timestamp = -1
    position = start + _HEADER.size
    if magic == 1:
        if end - start < _PREFIX.size + SMALLEST_LENGTHS[1]:
            raise CorruptRecordError(f"a message of magic 1 has {end - start} bytes, too few for its header")
        (timestamp,) = _TIMESTAMP.unpack_from(data, position)
        position += _TIMESTAMP.size
    key, position = _nullable_bytes(data, position, end, "key")
    value, position = _nullable_bytes(data, position, end, "value")
    timestamp_type = attribute_bits.timestamp_type_of(attributes, magic)
    return LegacyMessage(offset, timestamp, timestamp_type, magic, attributes, key, value, crc, crc_ok)


def _nullable_bytes(data: memoryview, position: int, end: int, what: str) -> tuple[memoryview | None, int]:
    if end - position < _LENGTH.size:
        raise CorruptRecordError(f"a message ends before the length of its {what}")
    (length,) = _LENGTH.unpack_from(data, position)
    position += _LENGTH.size
    if length < 0:
        return None, position
    if length > end - position:
        raise CorruptRecordError(f"a message's {what} declares {length:,} bytes where {end - position:,} are left")
    return data[position : position + length], position + length
