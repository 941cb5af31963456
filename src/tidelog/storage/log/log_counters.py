"""What happened to one log since it was opened, counted; and what it is at one moment. Values for metrics.

Counters only grow. Called by: PartitionLog, under its lock or for its metrics. Source: Kafka's ``BrokerTopicMetrics``,
``UnifiedLog``'s gauges and ``LogFlushRateAndTimeMs``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tidelog.model import CorruptRecordError, InvalidRecordError, RecordTooLargeError, Refusal, TidelogError


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
    """When the last flush ended, or the log was opened."""
