"""The sequence in which Kafka writes the keys of a JSON object: that of the hash tables of Scala and Java. Pure.

===============================  ====================================================================================
object                           Kafka's table
===============================  ====================================================================================
replicas by partition            Scala's mutable ``HashMap``; in a bucket keys are sorted by hash
settings, features               ``Properties``, a Java ``ConcurrentHashMap``; growth moves the keys of a bucket but the
                                 last ones to the front
===============================  ====================================================================================

Both begin with 16 buckets and double when three quarters are full. A bucket of Java's with eight keys would become a
tree, which is left out: keys would have to collide on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.protocol.java_hash import string_hash

_FIRST_SIZE: Final = 16


def scala_order(keys: Iterable[str]) -> list[str]:
    """Return the keys in the sequence of Scala's mutable ``HashMap``."""
    hashes = {key: _spread(key) for key in keys}
    size = _FIRST_SIZE
    while len(hashes) >= _threshold(size):
        size *= 2
    return sorted(hashes, key=lambda key: (hashes[key] & size - 1, _signed(hashes[key])))


def properties_order(keys: Iterable[str]) -> list[str]:
    """Return the keys in the sequence of ``Properties`` to which they were added one by one."""
    size = _FIRST_SIZE
    buckets: dict[int, list[tuple[int, str]]] = {}
    for count, key in enumerate(dict.fromkeys(keys), 1):
        entry = (_spread(key), key)
        buckets.setdefault(entry[0] & size - 1, []).append(entry)
        if count >= _threshold(size):
            buckets = _grown(buckets, size)
            size *= 2
    return [key for slot in sorted(buckets) for _, key in buckets[slot]]


def _grown(buckets: dict[int, list[tuple[int, str]]], size: int) -> dict[int, list[tuple[int, str]]]:
    """Split each bucket in two. The last keys that go the same way keep their sequence, the others come before them
    in reverse. Source: ``ConcurrentHashMap.transfer``."""
    grown: dict[int, list[tuple[int, str]]] = {}
    for entries in buckets.values():
        start = len(entries) - 1
        while start and (entries[start - 1][0] ^ entries[-1][0]) & size == 0:
            start -= 1
        for entry in entries[start:]:
            grown.setdefault(entry[0] & 2 * size - 1, []).append(entry)
        for entry in entries[:start]:
            grown.setdefault(entry[0] & 2 * size - 1, []).insert(0, entry)
    return grown


def _threshold(size: int) -> int:
    return size * 3 // 4


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _spread(key: str) -> int:
    value = string_hash(key)
    return value ^ value >> 16
