"""The number of next batches that fit into the active segment before it must roll. Pure.

A new segment begins before the first batch for which one of these holds:

==========================================================  =============================================
the segment would be larger than ``segment.bytes``          (the append refuses a batch above a segment)
the batch's largest timestamp is more than ``segment.ms``   counted from the first batch's timestamp, or by
(less the jitter) after the segment's beginning; a          the clock from the creation without one; never
compacted log also applies ``max.compaction.lag.ms``        for an empty segment
(less the jitter)
an index is full
the batch's last offset is more than 31 bits above the
segment's base offset
==========================================================  =============================================

The batches of a bulk append are checked one by one, as if each were appended alone.
Source: Kafka's ``LogSegment.shouldRoll``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidelog.kernel import BatchTable

MAX_RELATIVE_OFFSET = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RollState:
    """The facts about the active segment that the rules need; sizes in bytes, times in ms."""

    base_offset: int
    size: int
    segment_bytes: int
    roll_after_ms: int
    """``LogConfig.max_segment_ms`` less the segment's jitter."""
    begin_timestamp_ms: int | None
    """The first batch's timestamp; None or negative without one."""
    waited_ms: int
    """Time by the clock since the segment was created."""
    index_rows: int
    """Number of batches that the indexes have room for."""


def batches_that_fit(state: RollState, table: BatchTable) -> int:
    """Return the number of first rows that fit into this segment. 0 means that it must roll."""
    end = state.size + np.cumsum(table.size.astype(np.int64))
    fits = end <= state.segment_bytes
    fits &= table.last_offset - state.base_offset <= MAX_RELATIVE_OFFSET
    fits[state.index_rows :] = False
    timestamp = table.max_timestamp
    begin = int(timestamp[0]) if not state.size else state.begin_timestamp_ms
    if begin is not None and begin >= 0:
        waits = timestamp - begin > state.roll_after_ms
    else:
        waits = np.full(len(timestamp), state.waited_ms > state.roll_after_ms)
    if not state.size:
        waits[0] = False
    fits &= ~waits
    count = len(fits) if fits.all() else int(np.argmin(fits))
    # An empty segment accepts a batch at any limit: a new segment would have the same limits.
    return max(count, 1) if not state.size else count
