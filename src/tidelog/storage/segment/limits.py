"""The part of a log's settings that its segments need. A value; ``LogConfig.segment_limits`` makes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLimits:
    """Kafka's ``segment.*``, ``index.interval.bytes`` and ``preallocate``: sizes in bytes, times in ms."""

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    preallocate: bool = False
    """A new ``.log`` is made as long as a segment may become, and cut when it is finished."""
