"""The settings of a log manager: Kafka's broker keys as fields, with Kafka's defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.settings_keys import from_key, read_settings
from tidelog.runtime import Clock
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.manager.logs.move_throttle import MoveThrottle


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """All times are in ms."""

    recovery_threads: int = from_key("num.recovery.threads.per.data.dir")
    """The threads per directory that load logs at startup and flush them at shutdown."""
    retention_check_interval_ms: int = from_key("log.retention.check.interval.ms")
    flush_scheduler_interval_ms: int = from_key("log.flush.scheduler.interval.ms")
    recovery_point_checkpoint_interval_ms: int = from_key("log.flush.offset.checkpoint.interval.ms")
    log_start_checkpoint_interval_ms: int = from_key("log.flush.start.offset.checkpoint.interval.ms")
    high_watermark_checkpoint_interval_ms: int = from_key("replica.high.watermark.checkpoint.interval.ms")
    producer_expiration_check_interval_ms: int = from_key("producer.id.expiration.check.interval.ms")
    initial_task_delay_ms: int = from_key("log.initial.task.delay.ms")
    """The delay before the first run of each task."""
    cleaner_enable: bool = from_key("log.cleaner.enable")
    """True if the cleaner runs. If it is False, compacted topics are neither compacted nor deleted from."""
    cleaner: CleanerSettings = field(default_factory=CleanerSettings)
    verifies_transactions: bool = from_key("transaction.partition.verification.enable", default=False)
    """A client's first batch of a transaction needs a guard, which requires a transaction coordinator."""
    move_quota_windows: int = from_key("alter.log.dirs.replication.quota.window.num")
    """The samples of the rate of moves between log directories."""
    move_quota_window_s: int = from_key("alter.log.dirs.replication.quota.window.size.seconds")
    is_sole_replica: bool = True
    """No other broker replicates the logs, so the high watermark is the log end. This is no Kafka key."""
    syncs_rolls: bool = False
    """A log is on the disk before its next segment begins. This is no Kafka key."""

    def move_throttle(self, clock: Clock, limit: Callable[[], int | None]) -> MoveThrottle:
        """Return the throttle of moves; ``limit`` returns the bytes a second, or None."""
        window_ms = self.move_quota_window_s * 1000
        return MoveThrottle(clock, limit, windows=self.move_quota_windows, window_ms=window_ms)

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Return the settings from a broker's properties."""
        return cls(cleaner=CleanerSettings.of(config), **read_settings(cls, config))
