"""``open_directory(housekeeping=True)`` runs the scheduled tasks of a directory while Python code writes to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import tidelog
from log_maker import BASE_TIME
from tidelog.api.directory import Directory
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ClosedError, ConfigError, LockedError
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.runtime.progress import Progress
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.writable.managed_directories import ManagedDirectories
from tidelog.testing import ManualClock, ManualScheduler

DAY_MS = 24 * 3_600_000


def test_it_serves_and_stops_in_order(tmp_path: Path) -> None:
    with tidelog.open_directory(tmp_path, housekeeping=True) as directory:
        log = directory.log("t", 0)
        log.append(b"one")
        log.close()
        again = directory.log("t", 0)
        assert again.append(b"two") == 1
        with directory.transaction() as transaction:
            transaction.append(again, b"three")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    seen: list[Progress] = []
    with tidelog.open_directory([tmp_path], housekeeping=True, on_progress=seen.append) as directory:
        assert [record.value for record in directory.log("t", 0).records()] == [b"one", b"two", b"three"]
    assert [(progress.logs_done, progress.logs_total) for progress in seen] == [(1, 1)]
    with pytest.raises(ClosedError):
        directory.log("t", 0)


def test_it_is_locked_and_lets_go(tmp_path: Path) -> None:
    directory = tidelog.open_directory(tmp_path, housekeeping=True)
    with pytest.raises(LockedError):
        tidelog.open_directory(tmp_path, housekeeping=True)
    directory.close()
    tidelog.open_directory(tmp_path).close()


def test_several_directories_share_one_manager(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open_directory(paths, housekeeping=True) as directory:
        for number in range(4):
            directory.log("t", number).append(b"x")
        assert [len(list(path.glob("t-*"))) for path in paths] == [2, 2]
        assert directory.partitions() == [("t", number) for number in range(4)]
    assert all((path / ".kafka_cleanshutdown").exists() for path in paths)


def test_retention_applies(tmp_path: Path) -> None:
    clock = ManualClock(BASE_TIME)
    broker = BrokerConfig.load(
        overrides={
            "log.flush.offset.checkpoint.interval.ms": str(DAY_MS // 4),
            "log.flush.start.offset.checkpoint.interval.ms": str(DAY_MS // 4),
            "replica.high.watermark.checkpoint.interval.ms": str(DAY_MS // 4),
            "log.retention.hours": "168",
        }
    )
    kept = ManagedDirectories(LOCAL, [tmp_path], clock=clock, broker=broker, scheduler=ManualScheduler(clock))
    directory = Directory(LOCAL, [tmp_path], kept.directories(), clock=clock)
    log = directory.log("t", 0)
    log.append(b"old")
    clock.now += 8 * DAY_MS
    assert log.offsets().log_start == 1
    log.append(b"new")
    assert [record.value for record in log.records()] == [b"new"]
    directory.close()


def test_compacted_topics_are_compacted(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        "log.cleanup.policy=compact\nlog.cleaner.backoff.ms=10\nlog.cleaner.min.cleanable.ratio=0\nlog.roll.ms=1\n"
    )
    with tidelog.open_directory(tmp_path / "data", housekeeping=True, server_properties=properties) as directory:
        log = directory.log("t", 0)
        for number in range(20):
            log.append(b"%d" % number, key=b"%d" % (number % 3), timestamp=BASE_TIME + 10 * number)
        wait_for(lambda: len(list(log.records())) == 3 + 1)
        assert [record.value for record in log.records()][-3:] == [b"17", b"18", b"19"]
    checkpoint = tmp_path / "data" / "cleaner-offset-checkpoint"
    assert checkpoint.read_text().endswith("t 0 19\n")


def test_a_forked_child_can_only_let_go(tmp_path: Path) -> None:
    directory = tidelog.open_directory(tmp_path, housekeeping=True)
    log = directory.log("t", 0)
    log.append(b"x")
    child = os.fork()
    if child == 0:
        try:
            log.append(b"y")
        except tidelog.TidelogError:
            directory.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    log.append(b"z")
    directory.close()
    with tidelog.open_directory(tmp_path, read_only=True) as reader:
        assert [record.value for record in reader.log("t", 0).records()] == [b"x", b"z"]


def test_a_brokers_properties_are_below_the_topics_settings(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("log.roll.hours=5\nlog.retention.hours=3\nlog.retention.check.interval.ms=1000\n")
    with tidelog.open_directory(tmp_path / "data", housekeeping=True, server_properties=properties) as directory:
        log = directory.log("t", 0)
        config = log._engine().config
        assert (config.segment_ms, config.retention_ms) == (5 * 3_600_000, 3 * 3_600_000)
    properties.write_text("log.retention.check.interval.ms=never\n")
    with pytest.raises(ConfigError, match=r"server\.properties"):
        tidelog.open_directory(tmp_path / "data", housekeeping=True, server_properties=properties)
    with pytest.raises(ValueError, match="housekeeping=True"):
        tidelog.open_directory(tmp_path / "data", server_properties=properties)


def test_metrics_are_reported_as_the_properties_say(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        "kafka.metrics.reporters=csv\nkafka.csv.metrics.reporter.enabled=true\n"
        f"kafka.csv.metrics.dir={tmp_path / 'metrics'}\nkafka.metrics.polling.interval.secs=1\n"
    )
    with tidelog.open_directory(tmp_path / "data", housekeeping=True, server_properties=properties) as directory:
        directory.log("t", 0).append(b"x")
        directory.log("t", 0).flush()
        wait_for(lambda: any((tmp_path / "metrics").glob("*LogEndOffset*")))
        wait_for(lambda: any((tmp_path / "metrics").glob("*LogFlushRateAndTimeMs*")))


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        SYSTEM_CLOCK.sleep_ms(50)
    raise AssertionError("it did not happen within 30 s")


def test_reading_has_no_housekeeping(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="opened for writing"):
        tidelog.open_directory(tmp_path, read_only=True, housekeeping=True)
