"""The iteration order of Java's ``HashMap<Long, ...>``, so that snapshots equal Kafka's byte for byte.

Kafka keeps its producers in a HashMap and writes them in iteration order, bucket by bucket. A key's bucket depends on
the size of the table, which only grows. So the order depends on the map's history, and this class tracks it.

==================  =========================================================================
rule                in Java's HashMap
==================  =========================================================================
hash of a long      ``v ^ v >>> 32`` as 32 bits, then ``h ^ h >>> 16``
bucket              the hash's low bits; the table begins with 16 buckets
growth              doubles after a ``put`` that fills more than 3/4 of the table;
                    ``computeIfAbsent`` grows it at the *next* call instead
a long bucket       nine keys after a ``put``, or eight after a ``computeIfAbsent``: becomes a
                    tree (see ``hash_tree``); in a table below 64 buckets, the table grows
place in a bucket   ``put`` appends, ``computeIfAbsent`` prepends; growth keeps the order; a
                    tree with six keys or fewer after growth becomes a list again
clearing            keeps the size of the table
==================  =========================================================================

Pure. Source: the documentation and behaviour of ``java.util.HashMap``.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.storage.producer.hash_tree import TreeBucket

_FIRST_SIZE = 16
_LONG_BUCKET = 8
_SHORT_TREE = 6
_SIZE_FOR_TREES = 64
_MASK_32 = 0xFFFF_FFFF
_MASK_64 = 0xFFFF_FFFF_FFFF_FFFF


class JavaHashOrder:
    """A set of longs that iterates like Java's HashMap."""

    def __init__(self) -> None:
        self._table_size = 0
        self._buckets: dict[int, list[int] | TreeBucket] = {}
        """The non-empty buckets by their index in the table."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        for slot in sorted(self._buckets):
            bucket = self._buckets[slot]
            yield from bucket.keys if isinstance(bucket, TreeBucket) else bucket

    def __contains__(self, key: int) -> bool:
        return key in self._buckets.get(self._slot(key), ())

    def put(self, key: int) -> None:
        if not self._table_size:
            self._grow()
        if self._add(key, at_front=False) and self._too_full():
            self._grow()

    def compute_if_absent(self, key: int) -> None:
        if not self._table_size or self._too_full():
            self._grow()
        self._add(key, at_front=True)

    def remove(self, key: int) -> None:
        """Remove a key like an iterator does (``removeIf``). Raise KeyError if it is missing."""
        slot = self._slot(key)
        bucket = self._buckets.get(slot, [])
        if key not in bucket:
            raise KeyError(key)
        bucket.remove(key)
        if not bucket:
            del self._buckets[slot]
        self._count -= 1

    def clear(self) -> None:
        self._buckets.clear()
        self._count = 0

    def _add(self, key: int, *, at_front: bool) -> bool:
        """Add a key; return False if it was present."""
        slot = self._slot(key)
        bucket = self._buckets.get(slot)
        if bucket is None:
            self._buckets[slot] = [key]
        elif key in bucket:
            return False
        elif isinstance(bucket, TreeBucket):
            bucket.add(_hash(key), key)
        else:
            bucket.insert(0 if at_front else len(bucket), key)
            if len(bucket) > _LONG_BUCKET or (at_front and len(bucket) == _LONG_BUCKET):
                if self._table_size < _SIZE_FOR_TREES:
                    self._grow()
                else:
                    self._buckets[slot] = _tree(bucket)
        self._count += 1
        return True

    def _slot(self, key: int) -> int:
        return _hash(key) & (self._table_size - 1)

    def _too_full(self) -> bool:
        return self._count * 4 > self._table_size * 3

    def _grow(self) -> None:
        """Double the table: one more bit of the hash splits each bucket into two."""
        old_size, old = self._table_size, self._buckets
        self._table_size = old_size * 2 or _FIRST_SIZE
        self._buckets = {}
        for slot, bucket in old.items():
            keys = bucket.keys if isinstance(bucket, TreeBucket) else bucket
            low = [key for key in keys if not _hash(key) & old_size]
            if len(low) == len(keys):
                halves = {slot: keys}
            else:
                halves = {slot: low, slot + old_size: [key for key in keys if _hash(key) & old_size]}
            for new_slot, half in halves.items():
                if not isinstance(bucket, TreeBucket) or len(half) <= _SHORT_TREE:
                    if half:
                        self._buckets[new_slot] = half
                else:
                    self._buckets[new_slot] = bucket if len(half) == len(keys) else _tree(half)


def _tree(keys: list[int]) -> TreeBucket:
    return TreeBucket((_hash(key), key) for key in keys)


def _hash(key: int) -> int:
    """Return the hash as a signed 32-bit number."""
    bits = key & _MASK_64
    folded = (bits ^ bits >> 32) & _MASK_32
    mixed = folded ^ folded >> 16
    return mixed - (1 << 32) if mixed & 0x8000_0000 else mixed
