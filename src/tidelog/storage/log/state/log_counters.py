"""Counters of one log's events since it was opened, and its gauges at one moment, for metrics.

Counters only grow. Thread rule: the caller holds the partition's lock for a change; any thread may read.
Source: Kafka's ``BrokerTopicMetrics``, ``UnifiedLog``'s gauges and ``LogFlushRateAndTimeMs``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tidelog.kernel import LogOffsets
from tidelog.model import CorruptRecordError, InvalidRecordError, RecordTooLargeError, Refusal, TidelogError
from tidelog.storage.log.state.log_segments import LogSegments
from tidelog.storage.segment.segment import LogSegment


@dataclass(slots=True)
class LogCounters:
    bytes_rejected: int = 0
    """Bytes of the appends that had a batch above ``max.message.bytes``."""
    invalid_crc: int = 0
    """Appends that had a damaged batch."""
    refused: Counter[Refusal] = field(default_factory=Counter)
    """Refused records by reason."""
    converted_records: int = 0
    """Records rewritten into a new batch, because the codec differed or the format was older."""
    flushes: int = 0
    flush_time_ms: int = 0
    """Total time of all flushes."""
    last_flush_ms: int = 0
    """Time at which a flush last moved the recovery point, or at which the log was opened."""

    def note_flush(self, took_ms: int) -> None:
        self.flushes += 1
        self.flush_time_ms += took_ms

    def note_refused(self, error: TidelogError, size: int) -> None:
        """Count a refused append of ``size`` bytes."""
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
    """Time at which a flush last moved the recovery point, or at which the log was opened."""


def log_metrics(segments: LogSegments[LogSegment], offsets: LogOffsets, last_flush_ms: int) -> LogMetrics:
    """Return a log's gauges. They are read without the lock, so they may differ by a moment."""
    log_start, end, recovery_point = offsets.log_start, offsets.log_end.message_offset, offsets.recovery_point
    return LogMetrics(
        segments=len(segments),
        log_start_offset=log_start,
        log_end_offset=end,
        size=sum(segment.size for segment in segments),
        unflushed_records=end - recovery_point,
        last_flush_ms=last_flush_ms,
    )
