"""The settings of a log manager: Kafka's broker keys as fields, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.settings_keys import SettingsKeys
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings

_KEYS = SettingsKeys(
    {
        "recovery_threads": "num.recovery.threads.per.data.dir",
        "retention_check_interval_ms": "log.retention.check.interval.ms",
        "flush_scheduler_interval_ms": "log.flush.scheduler.interval.ms",
        "recovery_point_checkpoint_interval_ms": "log.flush.offset.checkpoint.interval.ms",
        "log_start_checkpoint_interval_ms": "log.flush.start.offset.checkpoint.interval.ms",
        "high_watermark_checkpoint_interval_ms": "replica.high.watermark.checkpoint.interval.ms",
        "producer_expiration_check_interval_ms": "producer.id.expiration.check.interval.ms",
        "initial_task_delay_ms": "log.initial.task.delay.ms",
        "cleaner_enable": "log.cleaner.enable",
        "verifies_transactions": "transaction.partition.verification.enable",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """All times are in ms."""

    recovery_threads: int = _KEYS.default("recovery_threads")
    """The threads per directory that load logs at startup and flush them at shutdown."""
    retention_check_interval_ms: int = _KEYS.default("retention_check_interval_ms")
    flush_scheduler_interval_ms: int = _KEYS.default("flush_scheduler_interval_ms")
    recovery_point_checkpoint_interval_ms: int = _KEYS.default("recovery_point_checkpoint_interval_ms")
    log_start_checkpoint_interval_ms: int = _KEYS.default("log_start_checkpoint_interval_ms")
    high_watermark_checkpoint_interval_ms: int = _KEYS.default("high_watermark_checkpoint_interval_ms")
    producer_expiration_check_interval_ms: int = _KEYS.default("producer_expiration_check_interval_ms")
    initial_task_delay_ms: int = _KEYS.default("initial_task_delay_ms")
    """The delay before the first run of each task."""
    cleaner_enable: bool = _KEYS.default("cleaner_enable")
    """True if the cleaner runs. If it is False, compacted topics are neither compacted nor deleted from."""
    cleaner: CleanerSettings = field(default_factory=CleanerSettings)
    verifies_transactions: bool = False
    """A client's first batch of a transaction needs a guard, which requires a transaction coordinator."""
    is_sole_replica: bool = True
    """No other broker replicates the logs, so the high watermark is the log end. This is no Kafka key."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Return the settings from a broker's properties."""
        return cls(cleaner=CleanerSettings.of(config), **_KEYS.read(config))
