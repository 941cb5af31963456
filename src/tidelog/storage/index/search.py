"""Binary search over the fixed-size entries of an index, without copying them. Pure; no lock, no state.

Keys must ascend; on bytes where they do not (a damaged index) the answer is one of the entries or
"none", never an error.
Called by: the readers and writers of the offset and time index. Source: Kafka's ``AbstractIndex``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


def last_at_or_below(buffer: Buffer, count: int, entry_size: int, key: Struct, key_at: int, target: int) -> int:
    """Number of the last entry whose key is at most ``target``, -1 if none is.

    ``key`` (one integer) lies ``key_at`` bytes into each of the first ``count`` entries of ``entry_size`` bytes.
    """
    return bisect_right(range(count), target, key=_reader(buffer, entry_size, key, key_at)) - 1


def first_at_or_above(buffer: Buffer, count: int, entry_size: int, key: Struct, key_at: int, target: int) -> int:
    """Number of the first entry whose key is at least ``target``, -1 if none is."""
    slot = bisect_left(range(count), target, key=_reader(buffer, entry_size, key, key_at))
    return slot if slot < count else -1


def _reader(buffer: Buffer, entry_size: int, key: Struct, key_at: int) -> Callable[[int], int]:
    unpack_from = key.unpack_from

    def read(slot: int) -> int:
        value: int = unpack_from(buffer, slot * entry_size + key_at)[0]
        return value

    return read
