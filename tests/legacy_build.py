"""Messages of formats v0 and v1 as old brokers built them: single, or a set in a wrapper.

``legacy`` explains the layout. Inside a wrapper, offsets are relative to the first message in v1 and absolute in v0.
The wrapper has the last message's offset and, in v1, the largest timestamp. With log append time, every message has its
flag, also inside a wrapper. Brokers before 4.0 wrote these messages; new logs never have them.
Pure. Thread rule: any thread. Source: Kafka's ``LegacyRecord``, ``MemoryRecordsBuilder``; KIP-31, KIP-32.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.model import UnsupportedCompressionError
from tidelog.record.attributes import NONE, TIMESTAMP_TYPE_FLAG, ZSTD
from tidelog.record.batch_header import PREFIX_BYTES
from tidelog.record.compression import compress

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NULL: Final = struct.pack(">i", -1)


class MessageFields(NamedTuple):
    """The fields of a message. ``timestamp`` is in ms; format v0 does not store it."""

    timestamp: int
    key: Buffer | None
    value: Buffer | None


def build_set(
    messages: Iterable[MessageFields],
    *,
    magic: int,
    base_offset: int,
    codec: int = NONE,
    level: int | None = None,
    append_time_ms: int | None = None,
) -> bytearray:
    """Build the messages with offsets from ``base_offset``, in a wrapper if there is a codec.

    ``append_time_ms`` is the log append time of all messages. Raise UnsupportedCompressionError for zstd, which only
    v2 has.
    """
    if codec == ZSTD:
        raise UnsupportedCompressionError(f"a message of format v{magic} cannot be compressed with zstd")
    listed = list(messages)
    if append_time_ms is not None:
        listed = [message._replace(timestamp=append_time_ms) for message in listed]
    attributes = TIMESTAMP_TYPE_FLAG if append_time_ms is not None and magic else 0
    first = 0 if codec != NONE and magic else base_offset
    plain = bytearray()
    for number, message in enumerate(listed):
        plain += build_message(message, first + number, magic=magic, attributes=attributes)
    if codec == NONE:
        return plain
    timestamp = max(message.timestamp for message in listed)
    wrapper = MessageFields(timestamp, None, compress(codec, plain, level, magic=magic))
    return bytearray(build_message(wrapper, base_offset + len(listed) - 1, magic=magic, attributes=attributes | codec))


def build_message(message: MessageFields, offset: int, *, magic: int, attributes: int = 0) -> bytes:
    """Build one message with prefix and CRC."""
    body = bytearray((magic, attributes))
    if magic:
        body += struct.pack(">q", message.timestamp)
    for part in (message.key, message.value):
        data = None if part is None else memoryview(part)
        body += _NULL if data is None else struct.pack(">i", len(data))
        body += data or b""
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def restamp_message(
    entry: bytearray | memoryview, *, offset: int, timestamp: int | None, append_time: bool = False
) -> None:
    """Change the offset of a message or wrapper in place; for v1, also the timestamp and its type.

    ``entry`` is the message from its prefix on. The messages inside a wrapper do not change: readers use the wrapper's
    values for them. ``timestamp`` is None for v0, which has no timestamp.
    """
    struct.pack_into(">q", entry, 0, offset)
    if timestamp is None:
        return
    stamp = TIMESTAMP_TYPE_FLAG if append_time else 0
    attributes = entry[17]
    if attributes & TIMESTAMP_TYPE_FLAG == stamp and struct.unpack_from(">q", entry, 18)[0] == timestamp:
        return
    entry[17] = attributes & 7 | stamp
    struct.pack_into(">q", entry, 18, timestamp)
    struct.pack_into(">I", entry, PREFIX_BYTES, zlib.crc32(memoryview(entry)[16:]))
