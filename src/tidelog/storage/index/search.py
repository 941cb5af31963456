"""Binary search over the entries of an index, for targets of any size. Pure; no lock, no state.

Keys must ascend; on bytes where they do not (a damaged index) the answer is one of the entries or "none", never an
error. Both functions hold the interpreter's lock while they look at the buffer: no mapping is closed under them.
Called by: the readers and writers of the offset and time index. Source: Kafka's ``AbstractIndex``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel import IndexKey, lookup_index, lookup_index_above

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MIN, _MAX = -(2**63), 2**63 - 1


def last_at_or_below(buffer: Buffer, count: int, key: IndexKey, target: int) -> int:
    """Number of the last of the first ``count`` entries whose ``key`` is at most ``target``, -1 if none is."""
    return lookup_index(buffer, key, min(target, _MAX), count) if target >= _MIN else -1


def first_at_or_above(buffer: Buffer, count: int, key: IndexKey, target: int) -> int:
    """Number of the first of the first ``count`` entries whose ``key`` is at least ``target``, -1 if none is."""
    return lookup_index_above(buffer, key, max(target, _MIN), count) if target <= _MAX else -1
