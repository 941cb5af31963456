"""XXH3, 64 bits, seed 0: the hash Kafka keeps of the topics a group reads. Pure Python: a few hashes per rebalance.

================  ==================================================================
length in bytes   what is done
================  ==================================================================
0                 a constant
1–3, 4–8, 9–16    a few words, mixed
17–128            pairs of 16 bytes from both ends, by 128-bit products
129–240           the same, from the front, and the last 16 bytes once more
more              stripes of 64 bytes into eight accumulators, scrambled every 1024
================  ==================================================================

Source: the xxHash specification (XXH3), whose test values the tests have beside Kafka's own.
"""

from __future__ import annotations

import struct
from typing import Final

_M32: Final = (1 << 32) - 1
_M64: Final = (1 << 64) - 1
_P32_1, _P32_2, _P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P64_1, _P64_2, _P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P64_4, _P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_PMX_1, _PMX_2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_STRIPES_PER_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8


def xxh3_64(data: bytes) -> int:
    """The hash, unsigned."""
    if len(data) <= 16:
        return _short(data)
    if len(data) <= 240:
        return _middle(data)
    return _long(data)


def _short(data: bytes) -> int:
    size = len(data)
    if size == 0:
        return _avalanche64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))
    if size <= 3:
        combined = data[size - 1] | size << 8 | data[0] << 16 | data[size >> 1] << 24
        return _avalanche64(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    if size <= 8:
        word = _u32(data, size - 4) | _u32(data, 0) << 32
        return _strong(word ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16), size)
    low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
    high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche(size + swapped + high + _folded(low, high))


def _middle(data: bytes) -> int:
    size = len(data)
    total = size * _P64_1
    if size <= 128:
        for pair in range((size - 1) // 32 + 1):
            total += _mix16(data, 16 * pair, 32 * pair) + _mix16(data, size - 16 * (pair + 1), 32 * pair + 16)
        return _avalanche(total)
    for index in range(8):
        total += _mix16(data, 16 * index, 16 * index)
    total = _avalanche(total)
    for index in range(8, size // 16):
        total += _mix16(data, 16 * index, 16 * (index - 8) + 3)
    return _avalanche(total + _mix16(data, size - 16, 136 - 17))


def _long(data: bytes) -> int:
    lanes = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    stripes = (len(data) - 1) // _STRIPE
    for stripe in range(stripes):
        in_block = stripe % _STRIPES_PER_BLOCK
        _accumulate(lanes, data, _STRIPE * stripe, 8 * in_block)
        if in_block == _STRIPES_PER_BLOCK - 1:
            _scramble(lanes)
    _accumulate(lanes, data, len(data) - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = len(data) * _P64_1
    for index in range(0, 8, 2):
        position = 11 + 8 * index
        total += _folded(lanes[index] ^ _u64(_SECRET, position), lanes[index + 1] ^ _u64(_SECRET, position + 8))
    return _avalanche(total)


def _accumulate(lanes: list[int], data: bytes, position: int, secret: int) -> None:
    for index in range(8):
        value = _u64(data, position + 8 * index)
        key = value ^ _u64(_SECRET, secret + 8 * index)
        lanes[index ^ 1] = (lanes[index ^ 1] + value) & _M64
        lanes[index] = (lanes[index] + (key & _M32) * (key >> 32)) & _M64


def _scramble(lanes: list[int]) -> None:
    for index, lane in enumerate(lanes):
        key = _u64(_SECRET, len(_SECRET) - _STRIPE + 8 * index)
        lanes[index] = ((lane ^ lane >> 47 ^ key) * _P32_1) & _M64


def _mix16(data: bytes, position: int, secret: int) -> int:
    low, high = _u64(data, position), _u64(data, position + 8)
    return _folded(low ^ _u64(_SECRET, secret), high ^ _u64(_SECRET, secret + 8))


def _folded(left: int, right: int) -> int:
    product = left * right
    return product & _M64 ^ product >> 64


def _avalanche(value: int) -> int:
    value &= _M64
    value ^= value >> 37
    value = value * _PMX_1 & _M64
    return value ^ value >> 32


def _avalanche64(value: int) -> int:
    value ^= value >> 33
    value = value * _P64_2 & _M64
    value ^= value >> 29
    value = value * _P64_3 & _M64
    return value ^ value >> 32


def _strong(value: int, size: int) -> int:
    value ^= _rotated(value, 49) ^ _rotated(value, 24)
    value = value * _PMX_2 & _M64
    value ^= (value >> 35) + size
    value = value * _PMX_2 & _M64
    return value ^ value >> 28


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _M64


def _u32(data: bytes, position: int) -> int:
    return int(struct.unpack_from("<I", data, position)[0])


def _u64(data: bytes, position: int) -> int:
    return int(struct.unpack_from("<Q", data, position)[0])
