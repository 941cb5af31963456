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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOffsetSnapshot:
    """The four offsets of a partition at one moment; ``log_start <= last_stable <= high_watermark <= log_end``."""

    log_start: int
    last_stable: LogOffsetMetadata
    high_watermark: LogOffsetMetadata
    log_end: LogOffsetMetadata
