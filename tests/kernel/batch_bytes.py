"""Batches byte by byte, valid or wrong in any field, made without tidelog's code except the checksums."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

from tidelog.kernel import crc32c

Headers = Sequence[tuple[bytes | None, bytes | None]]
V2 = struct.Struct(">qiibIhiqqqhii")


def varint(value: int) -> bytes:
    rest = value << 1 if value >= 0 else -(value << 1) - 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(out) + bytes([rest])


def string(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    number: int,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    headers: Headers = (),
    *,
    timestamp_delta: int | None = None,
    extra: bytes = b"",
    length: int | None = None,
) -> bytes:
    delta = number if timestamp_delta is None else timestamp_delta
    body = b"\0" + varint(delta) + varint(number) + string(key) + string(value)
    body += varint(len(headers)) + b"".join(string(name) + string(part) for name, part in headers) + extra
    return varint(len(body) if length is None else length) + body


def batch(records: bytes | Sequence[bytes], **fields: Any) -> bytes:
    """Make a v2 batch. ``fields`` override the header's, including ``crc`` and ``length``."""
    count = 0 if isinstance(records, bytes) else len(records)
    payload = records if isinstance(records, bytes) else b"".join(records)
    values = {
        "base_offset": 0,
        "length": 49 + len(payload),
        "leader_epoch": -1,
        "magic": 2,
        "crc": 0,
        "attributes": 0,
        "last_offset_delta": max(count - 1, 0),
        "base_timestamp": 1000,
        "max_timestamp": 1000 + max(count - 1, 0),
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": count,
    }
    crc = fields.pop("crc", None)
    unknown = set(fields) - set(values)
    assert not unknown, unknown
    values |= fields
    whole = bytearray(V2.pack(*values.values()) + payload)
    whole[17:21] = (crc32c(memoryview(whole)[21:]) if crc is None else crc).to_bytes(4, "big")
    return bytes(whole)


def message(
    offset: int,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = 5000,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    crc: int | None = None,
    length: int | None = None,
) -> bytes:
    """Make a message of format v0 or v1."""
    body = struct.pack(">bB", magic, attributes) + (struct.pack(">q", timestamp) if magic == 1 else b"")
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    body = struct.pack(">I", zlib.crc32(body) if crc is None else crc) + body
    return struct.pack(">qi", offset, len(body) if length is None else length) + body
