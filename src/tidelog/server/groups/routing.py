"""The partition of an internal topic for a key: Java's ``Utils.abs(key.hashCode()) % partitions``.

Keys are group ids and transactional ids. Pure.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.protocol.errors import ApiError, ErrorCode

_MASK = 0xFFFFFFFF
_SMALLEST = 0x80000000
_SHORT_BYTES = 128
"""The largest length in bytes for which a Python loop is faster than numpy."""


def partition_of(key: str, partitions: int) -> int:
    """Return the number of the partition, of ``partitions``, whose leader coordinates ``key``."""
    value = string_hash(key)
    if value == _SMALLEST:  # its absolute value does not fit a Java int, so Kafka uses 0
        return 0
    return (value if value < _SMALLEST else (1 << 32) - value) % partitions


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


def check_group_id(group_id: str) -> None:
    """Raise ApiError(INVALID_GROUP_ID) if the id is empty. An empty group id is valid only for offset commits."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
