"""Binary search over the entries of an index, for targets of any size.

Keys must ascend. If they do not (a damaged index), the result is some entry or -1, never an error. The functions are
pure and stateless. Both hold the GIL while they read the buffer, so no other thread can close the mapping meanwhile.
Source: Kafka's ``AbstractIndex``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel import IndexKey, lookup_index, lookup_index_above

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MIN, _MAX = -(2**63), 2**63 - 1


def last_at_or_below(buffer: Buffer, count: int, key: IndexKey, target: int) -> int:
    """Return the number of the last of the first ``count`` entries whose ``key`` is at most ``target``, or -1."""
    return lookup_index(buffer, key, min(target, _MAX), count) if target >= _MIN else -1


def first_at_or_above(buffer: Buffer, count: int, key: IndexKey, target: int) -> int:
    """Return the number of the first of the first ``count`` entries whose ``key`` is at least ``target``, or -1."""
    return lookup_index_above(buffer, key, max(target, _MIN), count) if target <= _MAX else -1
