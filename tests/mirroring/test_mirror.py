"""A mirror of a broker: the copied parts, the resumption, and brokers that start on the copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import tidelog
from mirroring.source_and_copy import KEEPING, PATIENCE_S, Following, assert_equal, batches, options, produce
from tidelog.mirroring.blocking import plan_mirror, run_mirror
from tidelog.mirroring.run.progress import MirrorResult
from tidelog.model import DirectoryError, LockedError
from tidelog.testing import Broker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "source", configs=KEEPING) as broker:
        yield broker


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(broker: Broker, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    consumer.close()
    return int(found.offset)


def transactional_producer(broker: Broker) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "tx", "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    return producer


def transact(producer: Producer, topic: str, *values: bytes, commits: bool = True) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    if commits:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.flush(PATIENCE_S)
        producer.abort_transaction(PATIENCE_S)


def ends(result: MirrorResult) -> dict[str, int]:
    return {str(one.partition): one.log_end for one in result.partitions}


def test_every_codec_and_segment_is_copied_byte_for_byte(source: Broker, copy: Path) -> None:
    topic_id = source.create_topic("orders", 5, {"segment.bytes": "1048576", "max.message.bytes": "500000"})
    for number, codec in enumerate(CODECS):
        values = (b"%0200d" % value for value in range(12_000))
        produce(source, "orders", values, partition=number, config={"compression.type": codec, "batch.size": "100000"})
    result = run_mirror(options(source, copy))
    names = [f"orders-{number}" for number in range(len(CODECS))]
    assert result.is_complete
    assert len(list((copy / "orders-0").glob("*.log"))) > 1
    assert_equal(source.directory, copy, *names)
    assert (copy / "orders-0" / "partition.metadata").read_bytes() == (
        source.directory / "orders-0" / "partition.metadata"
    ).read_bytes()
    with Broker(copy, configs=KEEPING) as broker:
        image = broker.call(lambda: broker.server.metadata.image)
        assert image.topics["orders"].id == topic_id
        assert image.cluster_id != source.call(lambda: source.server.metadata.image.cluster_id)
        assert len(broker.records("orders")) == 60_000


def test_a_second_run_goes_on_where_the_first_ended(source: Broker, copy: Path) -> None:
    source.create_topic("orders")
    produce(source, "orders", (b"%d" % value for value in range(1_000)))
    first = run_mirror(options(source, copy))
    produce(source, "orders", (b"%d" % value for value in range(1_000, 1_500)))
    plan = {str(one.partition): one for one in plan_mirror(options(source, copy)).partitions}
    assert (plan["orders-0"].copy_end, plan["orders-0"].missing_records) == (1_000, 500)
    second = run_mirror(options(source, copy))
    assert (ends(first)["orders-0"], ends(second)["orders-0"]) == (1_000, 1_500)
    assert second.partitions[0].copied_records == 500
    assert_equal(source.directory, copy, "orders-0")


def test_a_plan_writes_nothing_and_names_its_findings(source: Broker, copy: Path) -> None:
    source.create_topic("orders", 2)
    source.create_topic("payments")
    produce(source, "orders", [b"a"])
    plan = plan_mirror(options(source, copy, topics="orders"))
    assert plan.is_new
    assert [(str(one.partition), one.state, one.missing_records) for one in plan.partitions] == [
        ("orders-0", "new", 1),
        ("orders-1", "new", 0),
    ]
    assert not copy.exists()
    run_mirror(options(source, copy, topics="orders"))
    source.delete_topic("orders")
    source.create_topic("orders")
    states = {str(one.partition): one.state for one in plan_mirror(options(source, copy)).partitions}
    assert states == {"orders-0": "re-made", "payments-0": "new"}


def test_groups_and_transactional_producers_go_on_where_they_were(source: Broker, copy: Path) -> None:
    source.create_topic("orders")
    producer = transactional_producer(source)
    transact(producer, "orders", b"a", b"b")
    transact(producer, "orders", b"no", commits=False)
    commit(source, "readers", "orders", 2)
    run_mirror(options(source, copy))
    assert_equal(source.directory, copy, "orders-0", *_coordinators(source.directory))
    with Broker(copy, configs=KEEPING) as broker:
        assert committed(broker, "readers", "orders") == 2
        again = transactional_producer(broker)
        transact(again, "orders", b"c")
        assert [record.value for record in broker.records("orders")] == [b"a", b"b", b"c"]
        ids = broker.call(lambda: set(broker.server.logs.require(tidelog.TopicPartition("orders", 0)).producers))
        assert len(ids) == 1, "the producer id of the source goes on"
        produce(broker, "orders", [b"d"], config={"enable.idempotence": "true"})
        new = broker.call(lambda: set(broker.server.logs.require(tidelog.TopicPartition("orders", 0)).producers)) - ids
        assert min(new) > max(ids)


def _coordinators(directory: Path) -> list[str]:
    found = sorted(path.name for path in directory.iterdir() if path.name.startswith("__"))
    return [name for name in found if name != "__cluster_metadata-0" and batches(directory, name)]


def test_without_groups_only_the_topics_are_copied(source: Broker, copy: Path) -> None:
    source.create_topic("orders")
    produce(source, "orders", [b"a"])
    commit(source, "readers", "orders", 1)
    result = run_mirror(options(source, copy, with_coordinators=False))
    assert ends(result) == {"orders-0": 1}


def test_settings_of_topics_are_copied(source: Broker, copy: Path) -> None:
    source.create_topic("orders", configs={"cleanup.policy": "compact", "min.insync.replicas": "1"})
    run_mirror(options(source, copy))
    with Broker(copy) as broker:
        image = broker.call(lambda: broker.server.metadata.image)
        configs = {resource.name: dict(found) for resource, found in image.configs.items()}
    assert configs["orders"] == {"cleanup.policy": "compact", "retention.ms": "-1"}


def test_a_directory_that_is_no_copy_of_this_source_is_refused(source: Broker, tmp_path: Path) -> None:
    run_mirror(options(source, tmp_path / "copy"))
    with Broker(tmp_path / "other") as other, pytest.raises(DirectoryError, match="but the source is cluster"):
        run_mirror(options(other, tmp_path / "copy"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(DirectoryError, match=r"not empty \(file\) and not a copy"):
        run_mirror(options(source, tmp_path / "full"))
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["file"]
    with Broker(tmp_path / "copy"):
        pass
    with pytest.raises(DirectoryError, match="broker 1 has served this copy"):
        run_mirror(options(source, tmp_path / "copy"))


class TestFollowing:
    def test_records_topics_and_partitions_arrive_while_it_runs(self, source: Broker, copy: Path) -> None:
        source.create_topic("orders")
        with Following(options(source, copy, follows=True)) as mirror:
            produce(source, "orders", [b"a"])
            mirror.wait_until_equal(source.directory, copy, "orders-0")
            source.create_topic("payments", 2)
            produce(source, "payments", [b"b"], partition=1)
            mirror.wait_until_equal(source.directory, copy, "payments-1")
            source.move_leader_epoch("orders")
            produce(source, "orders", [b"c"])
            mirror.wait_until_equal(source.directory, copy, "orders-0")
            with pytest.raises(LockedError):
                run_mirror(options(source, copy))
            with tidelog.open_directory(copy, read_only=True) as logs:
                assert [record.value for record in logs.log("orders", 0).records(until="log_end")] == [b"a", b"c"]
        assert_equal(source.directory, copy, "orders-0", "payments-1")
        assert (copy / ".kafka_cleanshutdown").exists()
        with Broker(copy, configs=KEEPING) as broker:
            assert [record.value for record in broker.records("orders")] == [b"a", b"c"]

    def test_groups_follow_behind_their_data(self, source: Broker, copy: Path) -> None:
        source.create_topic("orders")
        produce(source, "orders", [b"a", b"b"])
        commit(source, "readers", "orders", 1)
        (name,) = [one for one in _coordinators(source.directory) if one.startswith("__consumer")]
        with Following(options(source, copy, follows=True)) as mirror:
            mirror.wait_until_equal(source.directory, copy, name)
            produce(source, "orders", [b"c"])
            commit(source, "readers", "orders", 3)
            mirror.wait_until_equal(source.directory, copy, name)
        assert_equal(source.directory, copy, "orders-0", name)

    def test_a_source_that_is_away_comes_back(self, source: Broker, copy: Path) -> None:
        source.create_topic("orders")
        with Following(options(source, copy, follows=True)) as mirror:
            produce(source, "orders", [b"a"])
            mirror.wait_until_equal(source.directory, copy, "orders-0")
            source.drop_connections()
            produce(source, "orders", [b"b"])
            mirror.wait_until_equal(source.directory, copy, "orders-0")
            source.kill()
            source.start()
            produce(source, "orders", [b"c"])
            mirror.wait_until_equal(source.directory, copy, "orders-0")
        assert_equal(source.directory, copy, "orders-0")

    @pytest.mark.parametrize("deletes_old", [False, True])
    def test_a_remade_topic_begins_a_new_copy(self, source: Broker, copy: Path, deletes_old: bool) -> None:
        source.create_topic("orders")
        with Following(options(source, copy, follows=True, deletes_old=deletes_old)) as mirror:
            produce(source, "orders", [b"old"])
            mirror.wait_until_equal(source.directory, copy, "orders-0")
            source.delete_topic("orders")
            source.create_topic("orders")
            produce(source, "orders", [b"new", b"newer"])
            mirror.wait_until_equal(source.directory, copy, "orders-0")
        assert _records(copy) == [b"new", b"newer"]
        aside = [path.name.rpartition("-")[2] for path in copy.iterdir() if path.name.startswith("orders-0.")]
        assert aside == (["delete"] if deletes_old else ["stray"])

    @pytest.mark.parametrize("deletes_old", [False, True])
    def test_a_deleted_topic_stays_or_goes_by_choice(self, source: Broker, copy: Path, deletes_old: bool) -> None:
        source.create_topic("orders")
        produce(source, "orders", [b"a"])
        with Following(options(source, copy, follows=True, deletes_old=deletes_old)) as mirror:
            mirror.wait_until_equal(source.directory, copy, "orders-0")
            source.delete_topic("orders")
            mirror.wait(lambda: any("was deleted at the source" in event for event in mirror.events))
            mirror.wait(lambda: (copy / "orders-0").exists() is not deletes_old)
        with Broker(copy) as broker:
            assert ("orders" in broker.call(lambda: broker.server.metadata.image.topics)) is not deletes_old

    def test_settings_follow(self, source: Broker, copy: Path) -> None:
        source.create_topic("orders")
        with Following(options(source, copy, follows=True)) as mirror:
            mirror.wait(lambda: (copy / "orders-0").exists())
            _set_config(source, "orders", "retention.ms", "12345678")
            mirror.wait(lambda: _setting(copy, "orders", "retention.ms") == "12345678")


def _records(copy: Path) -> list[bytes | None]:
    with tidelog.open_directory(copy, read_only=True) as logs:
        return [record.value for record in logs.log("orders", 0).records(until="log_end")]


def _set_config(broker: Broker, topic: str, key: str, value: str) -> None:
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(PATIENCE_S)


def _setting(copy: Path, topic: str, key: str) -> str | None:
    from tidelog.server.configs.resource_type import ResourceType
    from tidelog.server.metadata.kraft.metadata_view import read_metadata
    from tidelog.storage.fs import LOCAL

    view = read_metadata(LOCAL, copy)
    assert view is not None
    return view.image.settings_of(ResourceType.TOPIC, topic).get(key)
