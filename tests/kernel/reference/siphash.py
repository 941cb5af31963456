"""SipHash with a 128-bit result, as published by Aumasson and Bernstein; twin of siphash.h."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MASK: Final = (1 << 64) - 1


def siphash(data: Buffer, key: Buffer, word_rounds: int = 1, end_rounds: int = 3) -> bytes:
    """Return 16 bytes; ``key`` has 16 bytes."""
    text = bytes(data)
    low, high = (int.from_bytes(bytes(key)[start : start + 8], "little") for start in (0, 8))
    state = [
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D ^ 0xEE,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    ]
    whole = len(text) // 8 * 8
    words = [int.from_bytes(text[start : start + 8], "little") for start in range(0, whole, 8)]
    words.append((len(text) & 0xFF) << 56 | int.from_bytes(text[whole:], "little"))
    for word in words:
        state[3] ^= word
        _rounds(state, word_rounds)
        state[0] ^= word
    state[2] ^= 0xEE
    _rounds(state, end_rounds)
    first = state[0] ^ state[1] ^ state[2] ^ state[3]
    state[1] ^= 0xDD
    _rounds(state, end_rounds)
    second = state[0] ^ state[1] ^ state[2] ^ state[3]
    return first.to_bytes(8, "little") + second.to_bytes(8, "little")


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _rounds(v: list[int], rounds: int) -> None:
    for _ in range(rounds):
        v[0] = (v[0] + v[1]) & _MASK
        v[2] = (v[2] + v[3]) & _MASK
        v[1] = _rotate(v[1], 13) ^ v[0]
        v[3] = _rotate(v[3], 16) ^ v[2]
        v[0] = (_rotate(v[0], 32) + v[3]) & _MASK
        v[2] = (v[2] + v[1]) & _MASK
        v[1] = _rotate(v[1], 17) ^ v[2]
        v[3] = _rotate(v[3], 21) ^ v[0]
        v[2] = _rotate(v[2], 32)
