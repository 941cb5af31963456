"""What happened to one log since it was opened, counted; and what it is at one moment. Values for metrics.

Counters only grow. Called by: PartitionLog, under its lock or for its metrics. Source: Kafka's ``BrokerTopicMetrics``,
``UnifiedLog``'s gauges and ``LogFlushRateAndTimeMs``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tidelog.model import CorruptRecordError, InvalidRecordError, RecordTooLargeError, Refusal, TidelogError
from tidelog.storage.log.log_offsets import LogOffsets
from tidelog.storage.log.segments import LogSegments
from tidelog.storage.segment.segment import LogSegment


@dataclass(slots=True)
class LogCounters:
    bytes_rejected: int = 0
    """Of appends with a batch above ``max.message.bytes``."""
    invalid_crc: int = 0
    """Appends with damaged batches."""
    refused: Counter[Refusal] = field(default_factory=Counter)
    """Records, by the reason."""
    converted_records: int = 0
    """Written into a new batch: another codec, or an older format."""
    flushes: int = 0
    flush_time_ms: int = 0
    """Of all flushes together."""
    last_flush_ms: int = 0
    """When a flush last moved the recovery point, or the log was opened."""

    def note_flush(self, took_ms: int) -> None:
        self.flushes += 1
        self.flush_time_ms += took_ms

    def note_refused(self, error: TidelogError, size: int) -> None:
        """An append of ``size`` bytes was refused."""
        if isinstance(error, RecordTooLargeError):
            self.bytes_rejected += size
        elif isinstance(error, CorruptRecordError):
            self.invalid_crc += 1
        elif isinstance(error, InvalidRecordError):
            self.refused.update(error.refusals)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMetrics:
    """Sizes in bytes, times in ms."""

    segments: int
    log_start_offset: int
    log_end_offset: int
    size: int
    unflushed_records: int
    """Offsets above the recovery point."""
    last_flush_ms: int
    """When a flush last moved the recovery point, or the log was opened."""


def log_metrics(segments: LogSegments[LogSegment], offsets: LogOffsets, last_flush_ms: int) -> LogMetrics:
    """Of a log, without its lock: the values may be a moment apart."""
    log_start, end, recovery_point = offsets.log_start, offsets.log_end.message_offset, offsets.recovery_point
    return LogMetrics(
        segments=len(segments),
        log_start_offset=log_start,
        log_end_offset=end,
        size=sum(segment.size for segment in segments),
        unflushed_records=end - recovery_point,
        last_flush_ms=last_flush_ms,
    )
