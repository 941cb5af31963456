"""Builder of valid and invalid messages of formats v0 and v1 for tests. Only the codecs are tidelog's code."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.record.compression import compress

LOG_APPEND = 0x08


class Message(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def encode_message(message: Message, magic: int, attributes: int = 0) -> bytes:
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", message.timestamp)
    for field in (message.key, message.value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", message.offset, len(body) + 4, zlib.crc32(body)) + body


def encode_set(messages: Sequence[Message], magic: int, codec: int = 0, attributes: int = 0) -> bytes:
    """Return the messages in sequence, or wrapped in one compressed message as brokers store them."""
    if codec == 0:
        return b"".join(encode_message(message, magic, attributes) for message in messages)
    first = messages[0].offset if magic == 1 else 0
    inner = b"".join(encode_message(m._replace(offset=m.offset - first), magic) for m in messages)
    return encode_wrapper(messages[-1].offset, max(m.timestamp for m in messages), inner, magic, codec, attributes)


def encode_wrapper(offset: int, timestamp: int, inner: bytes, magic: int, codec: int, attributes: int = 0) -> bytes:
    wrapped = Message(offset, timestamp, None, compress(codec, inner, magic=magic))
    return encode_message(wrapped, magic, attributes | codec)
