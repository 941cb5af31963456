"""Two's complement: the overflow of Java's longs."""

from __future__ import annotations


def wrap64(value: int) -> int:
    """Return ``value`` reduced to 64 bits, signed."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
