"""Java's hash of a text. All parties to the protocol use it to choose a partition or a fetcher. Pure.

Source: ``String.hashCode`` and Kafka's ``Utils.abs``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_MASK = 0xFFFFFFFF
_SMALLEST = 0x80000000
_SHORT_BYTES = 128
"""The largest length in bytes for which a Python loop is faster than numpy."""


def absolute(value: int) -> int:
    """Return the absolute value of a Java int that is given as an unsigned number. Like Kafka, return 0 for the
    smallest int, whose absolute value does not fit."""
    if value == _SMALLEST:
        return 0
    return value if value < _SMALLEST else (1 << 32) - value


def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode()`` as an unsigned number. A character above U+FFFF counts as two UTF-16 units.

    The hash is a polynomial in 31. A long text is hashed in pieces, and numpy adds up the terms of each piece.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    if len(units) <= _SHORT_BYTES:
        for index in range(0, len(units), 2):
            value = (31 * value + (units[index] << 8 | units[index + 1])) & _MASK
        return value
    codes = np.frombuffer(units, ">u2")
    for start in range(0, len(codes), len(_POWERS)):
        piece = codes[start : start + len(_POWERS)]
        terms = piece * _POWERS[-len(piece) :]
        value = (value * pow(31, len(piece), 1 << 32) + int(terms.sum(dtype=np.uint32))) & _MASK
    return value


def _powers(count: int) -> npt.NDArray[np.uint32]:
    """Return powers of 31, the highest first, modulo 2**32."""
    powers = np.full(count, 31, np.uint32)
    powers[-1] = 1
    return np.cumprod(powers[::-1], dtype=np.uint32)[::-1]


_POWERS = _powers(4096)
