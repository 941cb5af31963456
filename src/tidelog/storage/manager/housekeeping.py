"""The periodic tasks of a log manager: their periods and work. They make no decisions of their own.

===============================  ==============================================  ====================================
task                             period                                          work
===============================  ==============================================  ====================================
kafka-log-retention              ``log.retention.check.interval.ms``             delete segments past their retention
kafka-log-flusher                ``log.flush.scheduler.interval.ms``             flush logs ``flush.ms`` after the last
kafka-recovery-point-checkpoint  ``log.flush.offset.checkpoint.interval.ms``     write recovery points
kafka-log-start-offset-          ``log.flush.start.offset.checkpoint             write log starts
checkpoint                       .interval.ms``
highwatermark-checkpoint         ``replica.high.watermark.checkpoint             write high watermarks
                                 .interval.ms``
producer-expiration              ``producer.id.expiration.check.interval.ms``    expire idle producers
kafka-delete-logs                when the next is due, else every                remove deleted logs
                                 ``file.delete.delay.ms``
===============================  ==============================================  ====================================

The first run of each task comes after ``log.initial.task.delay.ms``. High watermarks are written earlier if their
period is shorter, because until then a reader of the files finds none for a new log. If a task fails for one log, it
reports the failure and goes on with the next. A disk failure takes the log's directory offline. Thread rule: the
scheduler's threads only. No task overlaps itself. Source: Kafka's ``LogManager``, ``ReplicaManager`` for the high
watermarks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from tidelog.model import ClosedError, StorageError, TidelogError
from tidelog.runtime import Clock, ScheduledTask, Scheduler
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.manager_settings import ManagerSettings

_log = logging.getLogger(__name__)


class MaintainedLogs(Protocol):
    """The logs that the tasks maintain."""

    def all_logs(self) -> list[PartitionLog]:
        """Return the current and future logs."""
        ...

    def logs_for_retention(self) -> Iterable[PartitionLog]:
        """Yield logs. Segments of a log may be deleted until the next log is requested."""
        ...

    def checkpoint_recovery_points(self) -> None: ...

    def checkpoint_log_starts(self) -> None: ...

    def checkpoint_high_watermarks(self) -> None: ...

    def remove_deleted_logs(self) -> int:
        """Return the delay until the next call in ms."""
        ...


class Housekeeping:
    def __init__(self, logs: MaintainedLogs, settings: ManagerSettings, clock: Clock, scheduler: Scheduler) -> None:
        self._logs = logs
        self._settings = settings
        self._clock = clock
        self._scheduler = scheduler
        self._tasks: list[ScheduledTask] = []

    def start(self) -> None:
        settings, kept = self._settings, self._logs
        _log.info("Starting log cleanup with a period of %d ms", settings.retention_check_interval_ms)
        self._every(settings.retention_check_interval_ms, "kafka-log-retention", self.apply_retention)
        self._every(settings.flush_scheduler_interval_ms, "kafka-log-flusher", self.flush_dirty_logs)
        self._every(
            settings.recovery_point_checkpoint_interval_ms,
            "kafka-recovery-point-checkpoint",
            kept.checkpoint_recovery_points,
        )
        self._every(
            settings.log_start_checkpoint_interval_ms, "kafka-log-start-offset-checkpoint", kept.checkpoint_log_starts
        )
        self._every(
            settings.high_watermark_checkpoint_interval_ms,
            "highwatermark-checkpoint",
            kept.checkpoint_high_watermarks,
            delay_ms=min(settings.initial_task_delay_ms, settings.high_watermark_checkpoint_interval_ms),
        )
        self._every(settings.producer_expiration_check_interval_ms, "producer-expiration", self.expire_producers)
        self._delete_in(settings.initial_task_delay_ms)

    def stop(self) -> None:
        """Cancel the tasks: none starts after this call."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()

    # --- the tasks ---

    def apply_retention(self) -> None:
        begun_ms = self._clock.now_ms()
        deleted = 0

        def delete_old(log: PartitionLog) -> None:
            nonlocal deleted
            deleted += len(log.delete_old_segments().deletions)

        self._for_each(self._logs.logs_for_retention(), "apply retention to", delete_old)
        took_s = (self._clock.now_ms() - begun_ms) // 1000
        _log.debug("Log cleanup completed. %d files deleted in %d seconds", deleted, took_s)

    def flush_dirty_logs(self) -> None:
        def flush(log: PartitionLog) -> None:
            if self._clock.now_ms() - log.counters.last_flush_ms >= log.config.flush_ms:
                log.flush()

        self._for_each(self._logs.all_logs(), "flush", flush)

    def expire_producers(self) -> None:
        self._for_each(self._logs.all_logs(), "expire producers of", PartitionLog.remove_expired_producers)

    def delete_logs(self) -> None:
        """Remove the logs whose deletion delay is over, and schedule the next run."""
        wait_ms = max(self._settings.initial_task_delay_ms, 1)
        try:
            wait_ms = self._logs.remove_deleted_logs()
        finally:
            self._delete_in(wait_ms)

    # --- inside ---

    def _every(self, period_ms: int, name: str, task: Callable[[], None], *, delay_ms: int | None = None) -> None:
        delay_ms = self._settings.initial_task_delay_ms if delay_ms is None else delay_ms
        self._tasks.append(self._scheduler.schedule(name, task, delay_ms=delay_ms, period_ms=period_ms))

    def _delete_in(self, delay_ms: int) -> None:
        self._tasks = [task for task in self._tasks if task.name != "kafka-delete-logs"]
        self._tasks.append(self._scheduler.schedule("kafka-delete-logs", self.delete_logs, delay_ms=delay_ms))

    def _for_each(self, logs: Iterable[PartitionLog], what: str, work: Callable[[PartitionLog], object]) -> None:
        for log in logs:
            try:
                work(log)
            except ClosedError:
                continue  # the log was deleted or moved meanwhile
            except StorageError as error:
                _log.debug("Could not %s %s: %s", what, log.directory, error)  # logged when its directory goes offline
            except TidelogError as error:
                _log.error("Could not %s %s: %s", what, log.directory, error)
