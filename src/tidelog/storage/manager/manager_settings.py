"""What a log manager goes by besides the logs' own settings: Kafka's broker keys as fields, with 4.1's defaults."""

from __future__ import annotations

from dataclasses import dataclass

_LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """Times in ms; the key of each stands below it."""

    recovery_threads: int = 2
    """``num.recovery.threads.per.data.dir``: to load and, at the end, to flush."""
    retention_check_interval_ms: int = 5 * 60 * 1000
    """``log.retention.check.interval.ms``"""
    flush_scheduler_interval_ms: int = _LONG_MAX
    """``log.flush.scheduler.interval.ms``"""
    recovery_point_checkpoint_interval_ms: int = 60 * 1000
    """``log.flush.offset.checkpoint.interval.ms``"""
    log_start_checkpoint_interval_ms: int = 60 * 1000
    """``log.flush.start.offset.checkpoint.interval.ms``"""
    high_watermark_checkpoint_interval_ms: int = 5 * 1000
    """``replica.high.watermark.checkpoint.interval.ms``"""
    producer_expiration_check_interval_ms: int = 10 * 60 * 1000
    """``producer.id.expiration.check.interval.ms``"""
    initial_task_delay_ms: int = 30 * 1000
    """``log.initial.task.delay.ms``: before the first run of each task."""
    cleaner_enable: bool = True
    """``log.cleaner.enable``: without the cleaner retention leaves compacted topics alone."""
    verifies_transactions: bool = False
    """``transaction.partition.verification.enable``"""
    is_sole_replica: bool = True
    """Not a key of Kafka's: nobody replicates the logs, so the high watermark is the log end."""
