"""The scheduled tasks of a log manager: their names, their intervals, and their reports."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from types import SimpleNamespace
from typing import Any

import pytest

from log_maker import BASE_TIME
from storage.manager.manager_home import MARKER, RECOVERY_POINT, ManagerHome, fill
from tidelog.model import TopicPartition
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.housekeeping import Housekeeping
from tidelog.storage.manager.manager_settings import ManagerSettings
from tidelog.testing import ManualClock

T0 = TopicPartition("t", 0)
PERIODS = {
    "kafka-log-retention": 301,
    "kafka-log-flusher": 302,
    "kafka-recovery-point-checkpoint": 303,
    "kafka-log-start-offset-checkpoint": 304,
    "highwatermark-checkpoint": 305,
    "producer-expiration": 306,
    "kafka-delete-logs": None,
}
"""The intervals by the names of Kafka's tasks. A deletion schedules its own next run."""


class NotedTasks:
    """A scheduler that records tasks and runs none."""

    def __init__(self) -> None:
        self.tasks: dict[str, tuple[int, int | None]] = {}

    def schedule(self, name: str, _task: object, *, delay_ms: int = 0, period_ms: int | None = None) -> Any:
        self.tasks[name] = (delay_ms, period_ms)
        return SimpleNamespace(name=name)


def test_each_task_has_kafkas_name_and_the_period_of_its_own_setting() -> None:
    settings = ManagerSettings(
        retention_check_interval_ms=301,
        flush_scheduler_interval_ms=302,
        recovery_point_checkpoint_interval_ms=303,
        log_start_checkpoint_interval_ms=304,
        high_watermark_checkpoint_interval_ms=305,
        producer_expiration_check_interval_ms=306,
        initial_task_delay_ms=30,
    )
    noted: Any = NotedTasks()
    kept: Any = SimpleNamespace(
        checkpoint_recovery_points=None, checkpoint_log_starts=None, checkpoint_high_watermarks=None
    )
    Housekeeping(kept, settings, ManualClock(BASE_TIME), noted).start()
    assert noted.tasks == {name: (30, period) for name, period in PERIODS.items()}


def test_a_log_is_flushed_flush_ms_after_the_last_time_and_not_before(tmp_path: Path) -> None:
    home = ManagerHome(tmp_path)
    config = LogConfig(segment_index_bytes=4096, flush_ms=10_000)
    manager = home.start(default_config=config, flush_scheduler_interval_ms=1000, initial_task_delay_ms=0)
    log = manager.get_or_create(T0)
    fill(log)
    home.clock.sleep_ms(9_999)
    assert log.recovery_point == 0
    home.clock.sleep_ms(1_001)
    assert log.recovery_point == log.end_offset


def test_retention_says_what_it_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = ManagerHome(tmp_path)
    manager = home.start(default_config=LogConfig(segment_bytes=1024, segment_index_bytes=4096, retention_ms=1000))
    log = manager.get_or_create(T0)
    fill(log, 60)
    segments = len(log.base_offsets)
    with caplog.at_level(logging.DEBUG, "tidelog.storage.manager.housekeeping"):
        home.clock.sleep_ms(30_000 + 300_000 + 2_000_000)
    said = [record.getMessage() for record in caplog.records if "Log cleanup completed" in record.getMessage()]
    assert said[0].startswith("Log cleanup completed. ")
    assert f"Log cleanup completed. {segments} files deleted in 0 seconds" in said


def test_recovery_points_are_what_is_on_the_disk(tmp_path: Path) -> None:
    """A crash may lose records that were not flushed, so the recovery point is not the log end."""
    home = ManagerHome(tmp_path, directories=1)
    manager = home.start()
    log = manager.get_or_create(T0)
    fill(log, 2)
    log.flush()
    synced = log.end_offset
    fill(log, 1)
    assert log.end_offset > synced
    manager.checkpoint_recovery_points()
    assert home.checkpoint(home.paths[0], RECOVERY_POINT) == {T0: synced}


@pytest.mark.parametrize(("directories", "threads", "logs"), [(1, 1, 8), (2, 1, 16), (1, 10, 10)])
def test_logs_are_closed_side_by_side(
    tmp_path: Path, directories: int, threads: int, logs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each directory has its own threads, at least eight: all logs close at the same time."""
    home = ManagerHome(tmp_path, directories=directories)
    manager = home.start(recovery_threads=threads)
    for number in range(logs):
        manager.get_or_create(TopicPartition("t", number))
    meeting = Barrier(logs, timeout=30)
    close = PartitionLog.close

    def close_together(log: PartitionLog) -> None:
        with suppress(BrokenBarrierError):
            meeting.wait()
        close(log)

    monkeypatch.setattr(PartitionLog, "close", close_together)
    manager.shutdown()
    assert not meeting.broken
    assert all((path / MARKER).exists() for path in home.paths)
