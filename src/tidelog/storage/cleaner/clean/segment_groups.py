"""The groups of segments that a clean rewrites into a single segment each. Pure.

A segment always makes a group, also alone. The next segment joins while all of this holds:

- The ``.log`` files together have at most ``segment.bytes``.
- The offset indexes together have at most ``segment.index.bytes``, and so have the time indexes.
- The next segment is empty, or its last offset lies within 31 bits above the group's base offset. The last offset is
  estimated from the next base offset (from the first uncleanable offset for the last segment). The estimate is never
  too low, and needs no read of the segment.

The group has its first segment's base offset, even if that segment begins with a later offset by now or is empty.
Source: Kafka's ``Cleaner.groupSegmentsBySize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.model.offsets import MAX_RELATIVE_OFFSET
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.segment.segment import LogSegment


class SegmentSizes(NamedTuple):
    """The sizes of a segment's files in bytes."""

    base_offset: int
    log: int
    offset_index: int = 0
    time_index: int = 0

    @classmethod
    def of(cls, segment: LogSegment) -> SegmentSizes:
        return cls(segment.base_offset, segment.size, segment.offset_index.size_bytes, segment.time_index.size_bytes)

    def plus(self, other: SegmentSizes) -> SegmentSizes:
        """Return the sizes of both segments together, at this one's base offset."""
        return SegmentSizes(
            self.base_offset,
            self.log + other.log,
            self.offset_index + other.offset_index,
            self.time_index + other.time_index,
        )

    def fits(self, config: LogConfig) -> bool:
        return (
            self.log <= config.segment_bytes
            and self.offset_index <= config.segment_index_bytes
            and self.time_index <= config.segment_index_bytes
        )


def group_segments(segments: Sequence[SegmentSizes], config: LogConfig, *, first_uncleanable: int) -> list[range]:
    """Return ranges of indexes into ``segments``, which ascend; every segment is in one range."""
    groups: list[range] = []
    first = 0
    ends = [*(segment.base_offset for segment in segments[1:]), first_uncleanable]
    while first < len(segments):
        together, last = segments[first], first + 1
        while last < len(segments):
            candidate = segments[last]
            joined = together.plus(candidate)
            in_reach = candidate.log == 0 or ends[last] - 1 - together.base_offset <= MAX_RELATIVE_OFFSET
            if not in_reach or not joined.fits(config):
                break
            together, last = joined, last + 1
        groups.append(range(first, last))
        first = last
    return groups
