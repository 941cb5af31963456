"""A source that loses, deletes or compacts records: the copy follows it, or keeps its records with a clear error."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

import tidelog
from cli.runner import run
from mirroring.source_and_copy import KEEPING, PATIENCE_S, Following, assert_equal, batches, options, produce
from tidelog.mirroring.blocking import run_mirror
from tidelog.mirroring.run.limits import DiskLimitError
from tidelog.mirroring.run.mirror_run import RunEnvironment
from tidelog.testing import Broker


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "source", configs=KEEPING) as broker:
        yield broker


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def delete_records(broker: Broker, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in admin.delete_records([KafkaPartition(topic, 0, offset)]).values():
        done.result(PATIENCE_S)


def values(directory: Path) -> list[bytes | None]:
    with tidelog.open_directory(directory, read_only=True) as logs:
        return [record.value for record in logs.log("orders", 0).records(until="log_end")]


def lose(broker: Broker) -> None:
    """Let the source lose the records of its partition, as after the replacement of a disk."""
    broker.stop()
    shutil.rmtree(broker.directory / "orders-0")
    (broker.directory / ".kafka_cleanshutdown").unlink()
    broker.start()


class TestDeletedRecords:
    def test_the_log_start_follows_delete_records(self, source: Broker, copy: Path) -> None:
        source.create_topic("orders")
        produce(source, "orders", [b"a", b"b", b"c"])
        delete_records(source, "orders", 1)
        run_mirror(options(source, copy))
        assert values(copy) == [b"b", b"c"]
        produce(source, "orders", [b"d"])
        delete_records(source, "orders", 3)
        (result,) = run_mirror(options(source, copy)).partitions
        assert (result.log_start, result.log_end) == (3, 4)
        assert values(copy) == [b"d"]

    def test_a_copy_that_ends_before_the_sources_log_start_starts_again_there(self, source: Broker, copy: Path) -> None:
        source.create_topic("orders")
        produce(source, "orders", [b"a"])
        run_mirror(options(source, copy))
        produce(source, "orders", [b"b", b"c"])
        produce(source, "orders", [b"d"])
        delete_records(source, "orders", 3)
        result = run_mirror(options(source, copy))
        assert "the source has deleted all records below 3" in result.events[0]
        (done,) = result.partitions
        assert (done.log_start, done.log_end, done.removed_records) == (3, 4, 1)
        assert values(copy) == [b"d"]

    def test_all_records_deleted_at_the_source_leave_an_empty_copy_at_the_same_offset(
        self, source: Broker, copy: Path
    ) -> None:
        source.create_topic("orders")
        produce(source, "orders", [b"a", b"b"])
        delete_records(source, "orders", 2)
        (done,) = run_mirror(options(source, copy)).partitions
        assert (done.log_start, done.log_end, done.is_complete) == (2, 2, True)


class TestLostData:
    def test_a_source_without_its_data_does_not_empty_the_copy(self, source: Broker, copy: Path) -> None:
        source.create_topic("orders")
        produce(source, "orders", [b"a", b"b"])
        run_mirror(options(source, copy))
        before = batches(copy, "orders-0")
        lose(source)
        produce(source, "orders", [b"x"])
        result = run_mirror(options(source, copy))
        (done,) = result.partitions
        assert "Nothing was removed from the copy" in (done.error or "")
        assert not result.is_complete
        assert batches(copy, "orders-0") == before
        accepted = run_mirror(options(source, copy, accepts_loss=True))
        assert accepted.is_complete
        assert values(copy) == [b"x"]

    def test_a_source_that_is_empty_does_not_empty_the_copy(self, source: Broker, copy: Path) -> None:
        source.create_topic("orders")
        produce(source, "orders", [b"a", b"b"])
        run_mirror(options(source, copy))
        lose(source)
        result = run_mirror(options(source, copy, leader_timeout_ms=2_000))
        assert not result.is_complete, "the copy is ahead of its source"
        assert values(copy) == [b"a", b"b"]


class TestCompaction:
    def test_gaps_are_copied(self, tmp_path: Path, copy: Path) -> None:
        with Broker(tmp_path / "source", configs=KEEPING) as broker:
            broker.create_topic("orders", configs={"segment.bytes": "1048576", "cleanup.policy": "compact"})
            for _ in range(3):
                produce(broker, "orders", [b"%01000d" % number for number in range(1_100)], key=b"k")
        run("compact", tmp_path / "source", "--apply", "--min-dirty-ratio", "0")
        with Broker(tmp_path / "source", configs=KEEPING) as broker:
            (done,) = run_mirror(options(broker, copy)).partitions
        assert done.log_end == 3_300
        assert_equal(tmp_path / "source", copy, "orders-0")
        assert len(batches(copy, "orders-0")) < 3_300


class TestLimits:
    def test_the_disk_limit_ends_the_run_cleanly_and_a_later_run_goes_on(self, source: Broker, copy: Path) -> None:
        source.create_topic("orders")
        for _ in range(20):
            produce(source, "orders", [b"%01000d" % number for number in range(20)])
        free = [200_000]

        def free_bytes(_path: Path) -> int:
            free[0] -= 30_000
            return free[0]

        environment = RunEnvironment(free_bytes=free_bytes)
        with pytest.raises(DiskLimitError, match="would leave less than --min-free 50,000"):
            run_mirror(options(source, copy, min_free=50_000, fetch_max_bytes=20_000), environment=environment)
        assert (copy / ".kafka_cleanshutdown").exists()
        assert 0 < len(batches(copy, "orders-0")) < len(batches(source.directory, "orders-0"))
        run_mirror(options(source, copy, min_free=50_000))
        assert_equal(source.directory, copy, "orders-0")

    def test_the_rate_is_limited(self, source: Broker, copy: Path) -> None:
        source.create_topic("orders")
        for _ in range(20):
            produce(source, "orders", [b"%01000d" % number for number in range(20)])
        result = run_mirror(options(source, copy, max_rate=400_000))
        assert result.elapsed_ms >= 500
        assert_equal(source.directory, copy, "orders-0")


def test_events_are_reported_while_following(source: Broker, copy: Path) -> None:
    source.create_topic("orders")
    produce(source, "orders", [b"a", b"b"])
    with Following(options(source, copy, follows=True)) as mirror:
        mirror.wait_until_equal(source.directory, copy, "orders-0")
        lose(source)
        produce(source, "orders", [b"x"])
        mirror.wait(lambda: any("Nothing was removed" in event for event in mirror.events))
    assert values(copy) == [b"a", b"b"]
