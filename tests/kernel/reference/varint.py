"""Zigzag varints, as Kafka's ``ByteUtils`` and protocol buffers encode them; twin of bytes.h."""

from __future__ import annotations

from typing import Final

INT_BYTES: Final = 5
LONG_BYTES: Final = 10


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int] | None:
    """Return the value and the position after it; None if the bytes end or there are more than 5."""
    return _read(data, position, end, INT_BYTES, 32)


def read_varlong(data: bytes, position: int, end: int) -> tuple[int, int] | None:
    """Return the value and the position after it; None if the bytes end or there are more than 10."""
    return _read(data, position, end, LONG_BYTES, 64)


def _read(data: bytes, position: int, end: int, most: int, bits: int) -> tuple[int, int] | None:
    value = 0
    for index, byte in enumerate(data[position : min(end, position + most)]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            value &= (1 << bits) - 1  # Kafka drops the bits beyond the type's width too
            return (value >> 1) ^ -(value & 1), position + index + 1
    return None


def write_varint(value: int) -> bytes:
    """Encode an int of 32 bits or a long of 64 bits; both have the same encoding."""
    left = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
