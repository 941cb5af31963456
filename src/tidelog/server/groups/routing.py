"""Which partition of an internal topic a key belongs to: ``Utils.abs(key.hashCode()) % partitions`` of Java. Pure.

Called by: the group coordinator (group ids), the transaction coordinator (transactional ids), FindCoordinator.
"""

from __future__ import annotations

from tidelog.protocol.errors import ApiError, ErrorCode

_MASK = 0xFFFFFFFF
_SMALLEST = 0x80000000


def partition_of(key: str, partitions: int) -> int:
    """The partition, of so many, whose leader coordinates ``key``."""
    value = string_hash(key)
    if value == _SMALLEST:  # its absolute value does not fit an int, so Kafka takes 0
        return 0
    return (value if value < _SMALLEST else (1 << 32) - value) % partitions


def string_hash(text: str) -> int:
    """``String.hashCode()`` as an unsigned number: over UTF-16 code units, a pair for what lies past U+FFFF."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & _MASK
    return value


def check_group_id(group_id: str) -> None:
    """INVALID_GROUP_ID: who has no group may commit offsets, and nothing else."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
