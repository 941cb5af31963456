"""Offsets of a partition and their places on disk. Source of the rules: Kafka's ``LogOffsetMetadata``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

UNKNOWN_POSITION = -1
MAX_RELATIVE_OFFSET = 2**31 - 1
"""The largest distance of an offset to its segment's base offset: indexes store it in 32 bits."""


class LogOffsetMetadata(NamedTuple):
    """A log offset with its segment and byte position; offset-only until resolved."""

    message_offset: int
    segment_base_offset: int = -1
    position_in_segment: int = UNKNOWN_POSITION

    @property
    def is_offset_only(self) -> bool:
        return self.position_in_segment == UNKNOWN_POSITION

    def is_on_older_segment(self, other: LogOffsetMetadata) -> bool:
        """Return True if its segment lies before that of ``other``. Raise ValueError if either is offset-only."""
        self._require_places(other)
        return self.segment_base_offset < other.segment_base_offset

    def is_on_same_segment(self, other: LogOffsetMetadata) -> bool:
        """Return True if both lie in one segment. Raise ValueError if either is offset-only."""
        self._require_places(other)
        return self.segment_base_offset == other.segment_base_offset

    def bytes_after(self, other: LogOffsetMetadata) -> int:
        """Return the bytes from ``other`` up to this offset. Raise ValueError if they do not share a segment."""
        if not self.is_on_same_segment(other):
            raise ValueError(f"{self} and {other} lie in different segments: no distance in bytes")
        return self.position_in_segment - other.position_in_segment

    def _require_places(self, other: LogOffsetMetadata) -> None:
        if self.is_offset_only or other.is_offset_only:
            raise ValueError(f"{self} and {other}: where one of them lies is not known, so they cannot be compared")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOffsetSnapshot:
    """The four offsets of a partition at one moment; ``log_start <= last_stable <= high_watermark <= log_end``."""

    log_start: int
    last_stable: LogOffsetMetadata
    high_watermark: LogOffsetMetadata
    log_end: LogOffsetMetadata

    @property
    def is_whole(self) -> bool:
        """True if the offsets ascend and their positions are known. Otherwise they changed during the snapshot."""
        stable, watermark, end = self.last_stable, self.high_watermark, self.log_end
        return (
            self.log_start <= stable.message_offset <= watermark.message_offset <= end.message_offset
            and not stable.is_offset_only
            and not watermark.is_offset_only
        )
