"""CRC-32C byte by byte, and CRC-32 from the standard library. This is the twin of _crc.pyx."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CASTAGNOLI: Final = 0x82F63B78


def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_CASTAGNOLI if value & 1 else 0)
        table.append(value)
    return table


_TABLE: Final = _table()


def crc32c(buffer: Buffer, crc: int = 0) -> int:
    """Return the CRC-32C of ``buffer``; ``crc`` is the CRC of the bytes before it."""
    state = crc ^ 0xFFFFFFFF
    for byte in bytes(buffer):
        state = state >> 8 ^ _TABLE[(state ^ byte) & 0xFF]
    return state ^ 0xFFFFFFFF


def crc32(buffer: Buffer, crc: int = 0) -> int:
    """Return the CRC-32 (zlib's polynomial) of ``buffer``; ``crc`` is the CRC of the bytes before it."""
    return zlib.crc32(buffer, crc)
