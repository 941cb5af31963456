"""The part of a log's settings that its segments need. A value; ``LogConfig.segment_limits`` makes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLimits:
    """Kafka's ``segment.*``, ``index.interval.bytes`` and ``preallocate``: sizes in bytes, times in ms."""

    segment_bytes: int
    max_segment_ms: int
    """Of ``segment.ms`` and, where the log is compacted, ``max.compaction.lag.ms`` the lower one."""
    jitter_below_ms: int
    """A new segment draws how much earlier it is rolled: less than this, or nothing where this is 0."""
    segment_index_bytes: int
    index_interval_bytes: int
    preallocate: bool = False
    """A new ``.log`` is made as long as a segment may become, and cut when it is finished."""
