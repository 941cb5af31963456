"""Which partition of an internal topic a key belongs to: ``Utils.abs(key.hashCode()) % partitions`` of Java. Pure.

Called by: the group coordinator (group ids), the transaction coordinator (transactional ids), FindCoordinator.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.protocol.errors import ApiError, ErrorCode

_MASK = 0xFFFFFFFF
_SMALLEST = 0x80000000
_SHORT_BYTES = 128
"""Up to here a loop takes less than numpy."""


def partition_of(key: str, partitions: int) -> int:
    """The partition, of so many, whose leader coordinates ``key``."""
    value = string_hash(key)
    if value == _SMALLEST:  # its absolute value does not fit an int, so Kafka takes 0
        return 0
    return (value if value < _SMALLEST else (1 << 32) - value) % partitions


def string_hash(text: str) -> int:
    """``String.hashCode()`` as an unsigned number: over UTF-16 code units, a pair for what lies past U+FFFF.

    A polynomial in 31: of a long text the terms are added up piece by piece.
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
    """Of 31, the highest first; what is above 32 bits is no part of the hash."""
    powers = np.full(count, 31, np.uint32)
    powers[-1] = 1
    return np.cumprod(powers[::-1], dtype=np.uint32)[::-1]


_POWERS = _powers(4096)


def check_group_id(group_id: str) -> None:
    """INVALID_GROUP_ID: who has no group may commit offsets, and nothing else."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
