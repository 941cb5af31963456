"""How many of the next batches go into the active segment before a new one has to begin. Pure.

A new segment begins before the first batch for which one of these holds:

==========================================================  =============================================
the segment would be larger than ``segment.bytes``          (no batch is larger than a segment: checked)
the batch's largest timestamp lies more than                counted from the first batch's timestamp, or by
``segment.ms`` (less the jitter) after the segment's        the clock since the creation without one; never
beginning; in a compacted log no more than                  for an empty segment
``max.compaction.lag.ms`` (less the jitter), too
an index is full
the batch's last offset is not within 31 bits above the
segment's base offset
==========================================================  =============================================

Batches of one bulk append are judged one by one, as if each had been appended alone.
Source: Kafka's ``LogSegment.shouldRoll``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidelog.kernel import BatchTable

MAX_RELATIVE_OFFSET = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RollState:
    """The active segment as the rule needs it; sizes in bytes, times in ms."""

    base_offset: int
    size: int
    segment_bytes: int
    roll_after_ms: int
    """``LogConfig.max_segment_ms`` less the segment's jitter."""
    begin_timestamp_ms: int | None
    """Of its first batch; None or negative without one."""
    waited_ms: int
    """By the clock, since it was created."""
    index_rows: int
    """Rows that the indexes have room for."""


def batches_that_fit(state: RollState, table: BatchTable) -> int:
    """Number of the first rows that belong into this segment; 0 says: roll."""
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
    # An empty segment takes a batch whatever its limits say: a new one would have the same.
    return max(count, 1) if not state.size else count
