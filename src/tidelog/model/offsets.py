"""Offsets of a partition and where they lie on disk. Source of the rules: Kafka's ``LogOffsetMetadata``."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN_POSITION = -1


@dataclass(frozen=True, slots=True)
class LogOffsetMetadata:
    """A log offset with the segment and byte position it lies at; offset-only until resolved."""

    message_offset: int
    segment_base_offset: int = -1
    position_in_segment: int = UNKNOWN_POSITION

    @property
    def is_offset_only(self) -> bool:
        return self.position_in_segment == UNKNOWN_POSITION

    def is_on_older_segment(self, other: LogOffsetMetadata) -> bool:
        """Whether its segment lies before that of ``other``. ValueError where one of them is offset-only."""
        self._require_places(other)
        return self.segment_base_offset < other.segment_base_offset

    def is_on_same_segment(self, other: LogOffsetMetadata) -> bool:
        """ValueError where one of them is offset-only."""
        self._require_places(other)
        return self.segment_base_offset == other.segment_base_offset

    def bytes_after(self, other: LogOffsetMetadata) -> int:
        """Bytes from ``other``, in the same segment, up to this. ValueError where they do not share one."""
        if not self.is_on_same_segment(other):
            raise ValueError(f"{self} and {other} lie in different segments: no distance in bytes")
        return self.position_in_segment - other.position_in_segment

    def offsets_after(self, other: LogOffsetMetadata) -> int:
        return self.message_offset - other.message_offset

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
        """In order, and of each it is known where it lies; else it was taken while something changed."""
        stable, watermark, end = self.last_stable, self.high_watermark, self.log_end
        return (
            self.log_start <= stable.message_offset <= watermark.message_offset <= end.message_offset
            and not stable.is_offset_only
            and not watermark.is_offset_only
        )
