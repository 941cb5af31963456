"""Which segments of a log are rewritten into one. Pure.

A group goes on with the next segment while all of this holds; a segment alone is always a group:

- their ``.log`` files together have at most ``segment.bytes``;
- so have their offset indexes, and their time indexes, with ``segment.index.bytes``;
- the next one is empty, or its last offset lies within 31 bits above the group's base offset. The last offset is that
  before the next segment's base offset, and before the first uncleanable offset for the last of them: an estimate that
  is never too low and needs no look into the segment.

The group's base offset is its first segment's, also where that begins with other offsets by now, or with none.
Source: Kafka's ``Cleaner.groupSegmentsBySize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.storage.log.config import LogConfig
from tidelog.storage.segment.segment import MAX_RELATIVE_OFFSET, LogSegment


class SegmentSizes(NamedTuple):
    """In bytes."""

    base_offset: int
    log: int
    offset_index: int = 0
    time_index: int = 0

    @classmethod
    def of(cls, segment: LogSegment) -> SegmentSizes:
        return cls(segment.base_offset, segment.size, segment.offset_index.size_bytes, segment.time_index.size_bytes)

    def plus(self, other: SegmentSizes) -> SegmentSizes:
        """Both in one, at the base offset of this."""
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
    """Ranges of indexes into ``segments``, which ascend; every segment is in one."""
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
