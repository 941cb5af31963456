"""Two's complement, as Java's longs wrap."""

from __future__ import annotations


def wrap64(value: int) -> int:
    """``value`` cut to 64 bits, signed."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
