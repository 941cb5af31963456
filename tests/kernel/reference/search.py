"""Lookups in the bytes of an index, by plain bisection. This is the twin of _search.pyx."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.kernel.index_key import IndexKey

if TYPE_CHECKING:
    from typing_extensions import Buffer


def lookup_index(buffer: Buffer, key: int, target: int, count: int = -1) -> int:
    """Return the slot of the last of the first ``count`` entries whose ``key`` is at most ``target``, or -1."""
    slots, read = _entries(buffer, key, count)
    return bisect_right(slots, target, key=read) - 1


def lookup_index_above(buffer: Buffer, key: int, target: int, count: int = -1) -> int:
    """Return the slot of the first entry whose ``key`` is at least ``target``, or -1."""
    slots, read = _entries(buffer, key, count)
    slot = bisect_left(slots, target, key=read)
    return slot if slot < len(slots) else -1


def _entries(buffer: Buffer, key: int, count: int) -> tuple[range, Callable[[int], int]]:
    field = IndexKey(key)
    data = memoryview(buffer).cast("B")
    whole = len(data) // field.entry_size
    if count > whole:
        raise ValueError(f"{count} entries in a buffer of {len(data)} bytes")

    def read(slot: int) -> int:
        start = slot * field.entry_size + field.start
        return int.from_bytes(data[start : start + field.width], "big", signed=True)

    return range(whole if count < 0 else count), read
