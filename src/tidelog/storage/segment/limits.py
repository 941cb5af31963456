"""The settings of a log that its segments need, and the rule by which the active segment must roll. Pure.

``LogConfig.segment_limits`` creates the value. A new segment begins before the first batch with one of these facts:

==========================================================  =============================================
the segment would be larger than ``segment.bytes``          (the append refuses a batch above a segment)
the batch's largest timestamp is more than ``segment.ms``   counted from the first batch's timestamp, or by
(less the jitter) after the segment's beginning; a          the clock from the creation without one; never
compacted log also applies ``max.compaction.lag.ms``        for an empty segment
(less the jitter)
the batch's last offset is more than 31 bits above the
segment's base offset
an index is full
==========================================================  =============================================

The batches of a bulk append are checked one by one, as if each were appended alone. ``SegmentEnd`` applies the rule.
Source: Kafka's ``LogSegment.shouldRoll``.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_SEGMENT_BYTES = 2**31 - 1
"""The limit of the positions in an offset index, and so of a ``.log``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLimits:
    """Kafka's ``segment.*``, ``index.interval.bytes`` and ``preallocate``: sizes in bytes, times in ms."""

    segment_bytes: int
    max_segment_ms: int
    """The age at which a segment rolls: ``segment.ms``, or ``max.compaction.lag.ms`` if that is lower and applies."""
    jitter_below_ms: int
    """The upper bound (exclusive) of a new segment's random roll jitter; 0 means no jitter."""
    segment_index_bytes: int
    index_interval_bytes: int
    preallocate: bool = False
    """True if a new ``.log`` is allocated with the full segment size, and truncated when the segment is finished."""
