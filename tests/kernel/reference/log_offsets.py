"""The offsets of a log. This is the twin of _log_offsets.pyx, which has the contract."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.model import LogOffsetMetadata


class LogOffsets:
    __slots__ = (
        "_high_watermark",
        "_log_end",
        "_log_start",
        "_truncated_at",
        "on_high_watermark",
        "recovery_point",
        "synced",
    )

    def __init__(self, *, log_start: int, log_end: LogOffsetMetadata, recovery_point: int) -> None:
        self._log_start = log_start
        self._log_end = log_end
        self._high_watermark = LogOffsetMetadata(log_start)
        self.recovery_point = max(recovery_point, log_start)
        self.synced = recovery_point
        self._truncated_at: int | None = None
        self.on_high_watermark: Callable[[int], None] | None = None

    @property
    def log_start(self) -> int:
        return self._log_start

    @property
    def log_end(self) -> LogOffsetMetadata:
        return self._log_end

    @property
    def high_watermark(self) -> LogOffsetMetadata:
        return self._high_watermark

    def set_log_end(self, end: LogOffsetMetadata) -> None:
        self._log_end = end
        if self._high_watermark.message_offset >= end.message_offset:
            self._move_high_watermark(end)
        self._lower_recovery_point(end.message_offset)

    def restart(self, *, log_start: int, at: LogOffsetMetadata) -> None:
        self._log_start = log_start
        self._log_end = at
        self._move_high_watermark(at)
        self._lower_recovery_point(at.message_offset)

    def note_synced(self, end: int) -> None:
        self.recovery_point = max(self.recovery_point, end)
        self.synced = max(self.synced, end)

    def set_log_start(self, offset: int) -> None:
        self._log_start = offset
        if self._high_watermark.message_offset < offset:
            self._move_high_watermark(LogOffsetMetadata(offset))
        self.recovery_point = max(self.recovery_point, offset)

    def lower_log_start(self, offset: int) -> None:
        self._log_start = min(self._log_start, offset)

    def note_truncation(self, offset: int) -> None:
        self._truncated_at = offset if self._truncated_at is None else min(self._truncated_at, offset)

    def take_truncation(self) -> int | None:
        truncated_at, self._truncated_at = self._truncated_at, None
        return truncated_at

    def update_high_watermark(self, wanted: LogOffsetMetadata) -> LogOffsetMetadata:
        if wanted.message_offset < self._log_start:
            self._move_high_watermark(LogOffsetMetadata(self._log_start))
        elif wanted.message_offset >= self._log_end.message_offset:
            self._move_high_watermark(self._log_end)
        else:
            self._move_high_watermark(wanted)
        return self._high_watermark

    def maybe_increment_high_watermark(self, wanted: LogOffsetMetadata) -> LogOffsetMetadata | None:
        if wanted.message_offset > self._log_end.message_offset:
            raise ValueError(
                f"a high watermark of {wanted.message_offset} is past the log end {self._log_end.message_offset}"
            )
        before = self._high_watermark
        forward = before.message_offset < wanted.message_offset
        if not forward and not (before.message_offset == wanted.message_offset and before.is_on_older_segment(wanted)):
            return None
        self._move_high_watermark(wanted)
        return before

    def resolved_high_watermark(self, place: LogOffsetMetadata) -> None:
        self._move_high_watermark(place)

    def _lower_recovery_point(self, end: int) -> None:
        if self.recovery_point > end:
            self.recovery_point = end
        if self.synced > end:
            self.synced = end

    def _move_high_watermark(self, place: LogOffsetMetadata) -> None:
        before, self._high_watermark = self._high_watermark, place
        if self.on_high_watermark is not None and before.message_offset != place.message_offset:
            self.on_high_watermark(place.message_offset)
