"""The decompression of common LZ4 frames; twin of _lz4.pyx and lz4.h, which have the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from typing_extensions import Buffer

_HEADERS: Final = {
    bytes.fromhex("04224d1860") + bytes((size, checksum)): 65536 << 2 * number
    for number, (size, checksum) in enumerate(((0x40, 0x82), (0x50, 0xFB), (0x60, 0x51), (0x70, 0x73)))
}
"""The first seven bytes, and the largest size of a block."""
_HEADER_BYTES: Final = 7
_PLAIN: Final = 0x80000000


class _DamagedError(Exception):
    """The frame is damaged; the codec's library will report the details."""


def open_lz4_frames(
    buffer: Buffer, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], *, enough_bytes: int, max_bytes: int
) -> tuple[memoryview, npt.NDArray[np.int64]]:
    data = bytes(buffer)
    if not len(starts) or len(starts) != len(ends):
        raise ValueError(f"{len(starts)} frames begin, {len(ends)} end")
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if not 0 <= start <= end <= len(data):
            raise ValueError(f"no frame lies at [{start}:{end}] of {len(data)} bytes")
    out = bytearray()
    found: list[int] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if found and len(out) >= enough_bytes:
            break
        try:
            out += _frame(data[start:end], max_bytes)
            found.append(len(out))
        except _DamagedError:
            found.append(-1)
    return memoryview(bytes(out)), np.array(found, np.int64)


def _frame(data: bytes, max_bytes: int) -> bytearray:
    block_bytes = _HEADERS.get(data[:_HEADER_BYTES])
    if block_bytes is None:
        raise _DamagedError
    out = bytearray()
    position = _HEADER_BYTES
    while len(data) - position >= 4:
        size = int.from_bytes(data[position : position + 4], "little")
        position += 4
        if size == 0:
            return out
        block = data[position : position + (size & ~_PLAIN)]
        plain = block if size & _PLAIN else _block(block)
        if len(block) < size & ~_PLAIN or len(plain) > block_bytes or len(out) + len(plain) > max_bytes:
            break
        out += plain
        position += len(block)
    raise _DamagedError


def _block(data: bytes) -> bytearray:
    out = bytearray()
    position = 0
    while position < len(data):
        token = data[position]
        length, position = _length(data, position + 1, token >> 4)
        if length > len(data) - position:
            break
        out += data[position : position + length]
        position += length
        if position == len(data):
            return out
        distance = int.from_bytes(data[position : position + 2], "little")
        length, position = _length(data, position + 2, token & 15)
        if not 0 < distance <= len(out):
            break
        for _ in range(length + 4):
            out.append(out[-distance])
    raise _DamagedError


def _length(data: bytes, position: int, length: int) -> tuple[int, int]:
    """Return the length with its extra bytes, and the position after them."""
    if length < 15:
        return length, position
    while position < len(data):
        length += data[position]
        position += 1
        if data[position - 1] < 255:
            return length, position
    raise _DamagedError
