"""The settings of a log that its segments need. ``LogConfig.segment_limits`` creates the value."""

from __future__ import annotations

from dataclasses import dataclass


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
