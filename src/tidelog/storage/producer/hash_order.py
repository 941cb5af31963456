"""The order in which Java's ``HashMap<Long, ...>`` lists its keys, for snapshots equal to Kafka's byte for byte.

Kafka keeps its producers in a HashMap and writes them as it iterates: bucket by bucket. Which bucket a key lies in
depends on the table's size, which only ever grows, so the order depends on the map's history and is kept as one here.

==================  =========================================================================
rule                in Java's HashMap
==================  =========================================================================
hash of a long      ``v ^ v >>> 32`` as 32 bits, then ``h ^ h >>> 16``
bucket              the hash's low bits; the table begins with 16 buckets
growth              to twice the size after a ``put`` that leaves more than 3/4 as many keys;
                    ``computeIfAbsent`` grows at the *next* call instead
a ninth key         in one bucket of a table below 64 buckets: the table grows too
place in a bucket   ``put`` appends, ``computeIfAbsent`` prepends; growing keeps the order
clearing            keeps the size of the table
==================  =========================================================================

One rule is left out: a bucket of nine keys in a table of 64 or more becomes a tree, whose root Java moves to the front.
That takes nine producer ids equal in all the low bits; the snapshot is then valid, with entries in another order.
Pure. Called by: the producer state. Source: the documentation and behaviour of ``java.util.HashMap``.
"""

from __future__ import annotations

from collections.abc import Iterator

_FIRST_SIZE = 16
_LONG_BUCKET = 8
_SIZE_FOR_TREES = 64
_MASK_32 = 0xFFFF_FFFF
_MASK_64 = 0xFFFF_FFFF_FFFF_FFFF


class JavaHashOrder:
    """A set of longs that iterates as Java's HashMap would."""

    def __init__(self) -> None:
        self._buckets: list[list[int]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        for bucket in self._buckets:
            yield from bucket

    def __contains__(self, key: int) -> bool:
        return bool(self._buckets) and key in self._bucket(key)

    def put(self, key: int) -> None:
        if key in self:
            return
        if not self._buckets:
            self._grow()
        bucket = self._bucket(key)
        bucket.append(key)
        self._count += 1
        if len(bucket) > _LONG_BUCKET and len(self._buckets) < _SIZE_FOR_TREES:
            self._grow()
        if self._too_full():
            self._grow()

    def compute_if_absent(self, key: int) -> None:
        if not self._buckets or self._too_full():
            self._grow()
        bucket = self._bucket(key)
        if key in bucket:
            return
        bucket.insert(0, key)
        self._count += 1
        if len(bucket) >= _LONG_BUCKET and len(self._buckets) < _SIZE_FOR_TREES:
            self._grow()

    def remove(self, key: int) -> None:
        """KeyError if it is not there."""
        if key not in self:
            raise KeyError(key)
        self._bucket(key).remove(key)
        self._count -= 1

    def clear(self) -> None:
        for bucket in self._buckets:
            bucket.clear()
        self._count = 0

    def _bucket(self, key: int) -> list[int]:
        return self._buckets[_hash(key) & (len(self._buckets) - 1)]

    def _too_full(self) -> bool:
        return self._count * 4 > len(self._buckets) * 3

    def _grow(self) -> None:
        keys = list(self)
        self._buckets = [[] for _ in range(len(self._buckets) * 2 or _FIRST_SIZE)]
        for key in keys:
            self._bucket(key).append(key)


def _hash(key: int) -> int:
    bits = key & _MASK_64
    folded = (bits ^ bits >> 32) & _MASK_32
    return folded ^ folded >> 16
