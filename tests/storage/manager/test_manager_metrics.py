"""A log manager's metrics: names compared with Kafka's, values compared with its logs, none of deleted logs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from log_maker import batch, plain
from real_kafka.java import run_java
from storage.manager.manager_home import MARKER, ManagerHome, fill
from tidelog.model import InvalidRecordError, RecordTooLargeError, TopicPartition
from tidelog.runtime.metrics import MetricRegistry
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.metrics.manager_metrics import METRICS, ManagerMetrics

ORDERS = TopicPartition("orders", 0)
OTHERS = TopicPartition("others", 1)


class Watched(ManagerHome):
    """Managers with metrics in one registry."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.registry = MetricRegistry(clock=self.clock)
        self.metrics = ManagerMetrics(self.registry)

    def watched(self, **options: Any) -> LogManager:
        manager = self.make(on_flush=self.metrics.on_flush, **options)
        self.metrics.watch(manager, self.scheduler)
        return manager

    def report(self) -> dict[str, dict[str, int | float]]:
        return {str(sample.name): dict(sample.values) for sample in self.registry.samples()}

    def gauges(self, part: str) -> dict[str, int | float]:
        """Return the gauges whose names contain ``part``."""
        return {name: values["Value"] for name, values in self.report().items() if part in name and "Value" in values}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Watched]:
    home = Watched(tmp_path)
    yield home
    home.stop()


def start(home: Watched, **options: Any) -> LogManager:
    manager = home.watched(**options)
    manager.startup()
    return manager


def test_each_log_tells_what_it_is(home: Watched) -> None:
    manager = start(home)
    log = manager.get_or_create(ORDERS)
    fill(log)
    log.maybe_increment_log_start_offset(30)
    assert home.gauges("type=Log,") == {
        "kafka.log:type=Log,name=NumLogSegments,topic=orders,partition=0": log.metrics().segments,
        "kafka.log:type=Log,name=LogStartOffset,topic=orders,partition=0": 30,
        "kafka.log:type=Log,name=LogEndOffset,topic=orders,partition=0": 300,
        "kafka.log:type=Log,name=Size,topic=orders,partition=0": log.size,
        "kafka.log:type=Log,name=RetentionSizeInPercent,topic=orders,partition=0": 0,
    }
    assert log.metrics().segments > 3


def test_the_size_is_a_share_of_the_limit(home: Watched) -> None:
    manager = start(home)
    log = manager.get_or_create(ORDERS)
    fill(log)
    (name,) = home.gauges("RetentionSizeInPercent")
    log.update_config(replace(log.config, retention_bytes=2 * log.size))
    assert home.gauges("RetentionSizeInPercent") == {name: 50}
    log.update_config(replace(log.config, retention_bytes=log.size // 3))
    assert home.gauges("RetentionSizeInPercent") == {name: 300}


def test_a_future_log_is_tagged_and_takes_over(home: Watched) -> None:
    manager = start(home)
    log = manager.get_or_create(ORDERS)
    fill(log, 3)
    target = next(path for path in home.paths if path != log.directory.parent)
    manager.move(ORDERS, target)
    names = home.gauges("LogEndOffset")
    assert set(names) == {
        "kafka.log:type=Log,name=LogEndOffset,topic=orders,partition=0",
        "kafka.log:type=Log,name=LogEndOffset,topic=orders,partition=0,is-future=true",
    }
    home.clock.now += 1
    manager.run_move(ORDERS)
    assert home.gauges("LogEndOffset") == {"kafka.log:type=Log,name=LogEndOffset,topic=orders,partition=0": 30}


def test_what_is_deleted_is_in_no_report(home: Watched) -> None:
    manager = start(home)
    manager.get_or_create(ORDERS)
    manager.get_or_create(OTHERS)
    manager.delete(ORDERS)
    assert len(home.gauges("type=Log,")) == 5
    assert not home.gauges("topic=orders")
    manager.get_or_create(ORDERS)
    assert len(home.gauges("topic=orders")) == 5
    home.clock.sleep_ms(120_000)
    assert len(home.gauges("topic=orders")) == 5


def test_flushes_are_timed(home: Watched) -> None:
    manager = start(home)
    log = manager.get_or_create(ORDERS)
    fill(log, 1)
    log.flush()
    log.flush()
    flushed = home.report()["kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs"]
    assert flushed["Count"] == log.counters.flushes > 0
    assert flushed["Max"] == 0  # the clock does not move


def appended(log: PartitionLog, data: bytes, error: type[Exception] | None = None) -> None:
    if error is None:
        log.append_as_leader(bytearray(data), leader_epoch=0)
    else:
        with pytest.raises(error):
            log.append_as_leader(bytearray(data), leader_epoch=0)


def test_refused_and_converted_appends_are_metered(home: Watched) -> None:
    home.topic_settings = {"others": {"max.message.bytes": "300"}, "orders": {"compression.type": "zstd"}}
    manager = start(home, default_config=LogConfig(segment_index_bytes=4096, cleanup_policy=frozenset({"compact"})))
    orders, others = manager.get_or_create(ORDERS), manager.get_or_create(OTHERS)
    large = plain(0, 20)
    appended(others, large, RecordTooLargeError)
    appended(others, batch(0, [b"a", b"b"], key=None), InvalidRecordError)
    appended(orders, plain(0, 7))
    counts = {
        name.removeprefix("kafka.server:type=BrokerTopicMetrics,name="): values["Count"]
        for name, values in home.report().items()
        if "BrokerTopicMetrics" in name
    }
    assert counts == {
        "BytesRejectedPerSec": len(large),
        "BytesRejectedPerSec,topic=others": len(large),
        "ProduceMessageConversionsPerSec": 7,
        "ProduceMessageConversionsPerSec,topic=orders": 7,
        "InvalidMessageCrcRecordsPerSec": 0,
        "InvalidMagicNumberRecordsPerSec": 0,
        "InvalidOffsetOrSequenceRecordsPerSec": 0,
        "NoKeyCompactedTopicRecordsPerSec": 2,
    }
    manager.delete(OTHERS)
    manager.remove_deleted_logs()
    home.clock.now += 120_000  # until the deleted log is gone
    manager.remove_deleted_logs()
    after = home.report()
    assert not [name for name in after if "topic=others" in name]
    assert after["kafka.server:type=BrokerTopicMetrics,name=BytesRejectedPerSec"]["Count"] == len(large)


def test_rates_are_right_between_reports(home: Watched) -> None:
    home.topic_settings = {"orders": {"compression.type": "zstd"}}
    manager = start(home)
    log = manager.get_or_create(ORDERS)
    for _ in range(100):
        appended(log, plain(0, 30, timestamp=home.clock.now))
        home.clock.now += 3_000
    meter = home.report()["kafka.server:type=BrokerTopicMetrics,name=ProduceMessageConversionsPerSec"]
    assert meter["Count"] == 3_000
    assert meter["MeanRate"] == pytest.approx(10)
    assert meter["OneMinuteRate"] == pytest.approx(10, rel=0.1)


def test_a_start_tells_how_much_is_left(home: Watched) -> None:
    manager = start(home)
    for partition in (ORDERS, OTHERS):
        fill(manager.get_or_create(partition))
    home.kill(manager)
    home.metrics.close()
    home.metrics = ManagerMetrics(home.registry)
    seen: list[dict[str, int | float]] = []
    lock = threading.Lock()

    def look(_progress: object) -> None:
        with lock:
            seen.append(home.gauges("remaining"))

    again = home.watched()
    again.startup(on_progress=look)
    first, second = (f'remainingLogsToRecover,dir="{path}"' for path in home.paths)
    logs = [
        (report[f"kafka.log:type=LogManager,name={first}"], report[f"kafka.log:type=LogManager,name={second}"])
        for report in seen
    ]
    assert logs[0] in [(1, 1), (0, 1), (1, 0)]
    assert logs[-1] == (0, 0)
    assert any("threadNum=0" in name and left > 0 for report in seen for name, left in report.items())
    assert home.gauges("remaining") == {}


def test_a_directory_that_fails_is_counted(home: Watched) -> None:
    home.paths[1].parent.mkdir(exist_ok=True)
    home.paths[1].write_text("not a directory")
    manager = start(home)
    assert list(manager.offline) == [home.paths[1]]
    assert home.gauges("Offline") == {
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount": 1,
        f'kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory="{home.paths[0]}"': 0,
        f'kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory="{home.paths[1]}"': 1,
    }


def test_cordoned_directories_are_counted(home: Watched) -> None:
    manager = start(home)
    of_first, of_second = (
        f'kafka.log:type=LogManager,name=LogDirectoryCordoned,logDirectory="{p}"' for p in home.paths
    )
    count = "kafka.log:type=LogManager,name=CordonedLogDirectoryCount"
    assert home.gauges("Cordoned") == {count: 0, of_first: 0, of_second: 0}
    manager.cordon(home.paths[1:])
    assert home.gauges("Cordoned") == {count: 1, of_first: 0, of_second: 1}
    manager.cordon(home.paths)
    assert home.gauges("Cordoned") == {count: 2, of_first: 1, of_second: 1}


def test_an_offline_directory_may_be_cordoned(home: Watched) -> None:
    home.paths[1].parent.mkdir(exist_ok=True)
    home.paths[1].write_text("not a directory")
    start(home).cordon(home.paths[1:])
    (value,) = home.gauges(f'LogDirectoryCordoned,logDirectory="{home.paths[1]}"').values()
    assert value == 1


def test_after_the_end_nothing_is_left(home: Watched) -> None:
    manager = start(home)
    manager.get_or_create(ORDERS)
    manager.shutdown()
    home.metrics.close()
    home.metrics.close()
    assert home.report() == {}


def test_every_metric_that_is_reported_is_described_and_the_other_way_round(home: Watched) -> None:
    manager = start(home)
    fill(manager.get_or_create(ORDERS))
    home.kill(manager)
    found: set[tuple[str, str, str]] = set()

    def look(_progress: object) -> None:
        found.update((one.name.group, one.name.type, one.name.name) for one in home.registry.samples())

    home.watched().startup(on_progress=look)
    look(None)
    described = {(one.group, one.type, one.name): one for one in METRICS}
    assert found == set(described)
    for sample in home.registry.samples():
        description = described[sample.name.group, sample.name.type, sample.name.name]
        assert sample.kind is description.kind
        assert [key for key, _ in sample.name.tags] == [
            key for key in description.tags if key in dict(sample.name.tags)
        ]


@pytest.mark.kafka
def test_names_are_those_of_kafkas_log_manager(home: Watched) -> None:
    """Kafka's LogManager and ours start on the same two directories with a partition in each."""
    manager = start(home)
    for partition in (ORDERS, OTHERS):
        fill(manager.get_or_create(partition))
    manager.shutdown()
    home.metrics.close()
    theirs = set(run_java("LogManagerMetrics", *home.paths).splitlines())
    for path in home.paths:
        (path / MARKER).unlink()
    home.metrics = ManagerMetrics(home.registry)
    ours: set[str] = set()
    home.watched(recovery_threads=1).startup(on_progress=lambda _progress: ours.update(home.report()))
    ours.update(home.report())
    assert ours - theirs == set()
    assert [name for name in theirs - ours if "type=BrokerTopicMetrics" not in name] == []
    assert len(ours) == 2 * 5 + 1 + 1 + 3 * 2 + 6 + 5 + 2 * 2 + 2 + 1 + 1 + 2
