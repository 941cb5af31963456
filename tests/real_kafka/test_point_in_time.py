"""Snapshots of a real broker's directory: Kafka starts on them, and clients go on where they were at that time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

import tidelog
from conftest import GoldenFactory
from golden_sets import EVERYTHING, SCENARIOS
from real_kafka.broker import Broker
from real_kafka.conftest import BrokerFactory
from real_kafka.test_cleaned_directory import errors
from real_kafka.tools import ConsumedRecord, kafka_consume
from snapshot_checks import Seen, data_partitions, digests, records, snapshot, until
from tidelog.model import TopicPartition
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView

pytestmark = pytest.mark.kafka

SMALL_SEGMENTS = {"internal.segment.bytes": "16384", "index.interval.bytes": "512"}
GROUP = "billing"
PATIENCE_S = 100.0


def pause() -> int:
    """Return a time that is later than every record so far, and earlier than every record to come."""
    time.sleep(0.05)
    now_ms = time.time_ns() // 1_000_000
    time.sleep(0.05)
    return now_ms


def produce(broker: Broker, first: int, count: int) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "log_level": 2, "linger.ms": "5", "batch.size": "4000"}
    producer = Producer(settings)
    for number in range(first, first + count):
        producer.produce("orders", b"%d %060d" % (number, number), b"%d" % number, partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0


def transactional(broker: Broker) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2, "transactional.id": "writer"})
    producer.init_transactions(PATIENCE_S)
    return producer


def send(producer: Producer, *values: bytes) -> None:
    for value in values:
        producer.produce("payments", value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def commit(broker: Broker, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "log_level": 2})
    consumer.commit(offsets=[KafkaPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def go_on(broker: Broker, count: int) -> list[bytes]:
    """Read the next records of partition 0 as a member of the group, from its committed offset on."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "error",
            "enable.auto.commit": "false",
            "log_level": 2,
        }
    )
    consumer.subscribe(["orders"])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, "the group reads nothing"
        message = consumer.poll(1.0)
        if message is not None and message.error() is None and message.partition() == 0:
            value = message.value()
            assert value is not None
            found.append(value)
    consumer.close()
    return found


def values(broker: Broker, partition: str, isolation: str = "read_uncommitted") -> list[bytes | None]:
    return [one[4] for one in kafka_consume(broker.bootstrap, [partition], isolation=isolation)[partition]]


def test_of_a_running_broker(new_broker: BrokerFactory, tmp_path: Path) -> None:
    """A transaction is open at the time, and everything goes on afterwards, also the broker."""
    broker = new_broker()
    broker.start()
    broker.create_topic("orders", partitions=2, config=SMALL_SEGMENTS)
    broker.create_topic("payments", config=SMALL_SEGMENTS)
    produce(broker, 0, 1500)
    commit(broker, 200)
    producer = transactional(broker)
    producer.begin_transaction()
    send(producer, b"committed before")
    producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    send(producer, b"open then")
    at_ms = pause()
    produce(broker, 1500, 500)
    commit(broker, 700)
    send(producer, b"later")
    producer.commit_transaction(PATIENCE_S)

    result = tidelog.snapshot(broker.directory, tmp_path / "copy", at=at_ms)
    produce(broker, 2000, 300)  # while both names of the linked files exist
    broker.kill()
    before = digests(broker.directory)
    ends = {str(one.partition): one for one in result.directories[0].partitions}
    assert (ends["orders-0"].log_end, ends["orders-1"].log_end) == (750, 750)
    assert ends["orders-0"].copy.linked >= 2
    assert [one.end.value for one in ends["payments-0"].transactions] == ["aborted"]

    copy = new_broker(tmp_path / "copy")
    copy.start()
    assert values(copy, "orders-0") == [b"%d %060d" % (number, number) for number in range(0, 1500, 2)]
    assert values(copy, "payments-0", "read_committed") == [b"committed before"]
    assert values(copy, "payments-0") == [b"committed before", b"open then"]
    assert go_on(copy, 550)[0] == b"400 %060d" % 400, "the commit of that time, not the later one"
    again = transactional(copy)
    again.begin_transaction()
    send(again, b"after")
    again.commit_transaction(PATIENCE_S)
    assert values(copy, "payments-0", "read_committed") == [b"committed before", b"after"]
    produce(copy, 5000, 500)
    assert values(copy, "orders-1")[-1] == b"5499 %060d" % 5499
    assert errors(copy) == []
    copy.stop()
    assert digests(broker.directory) == before, "Kafka on the snapshot changed the source"

    kept = snapshot(broker.directory, tmp_path / "kept", at_ms=at_ms, open_transactions="keep")
    assert [one.end.value for part in kept.directories[0].partitions for one in part.transactions] == ["kept"]
    third = new_broker(tmp_path / "kept")
    third.start()
    fresh = transactional(third)  # the coordinator aborts the open transaction of this id
    fresh.begin_transaction()
    send(fresh, b"after")
    fresh.commit_transaction(PATIENCE_S)
    assert values(third, "payments-0", "read_committed") == [b"committed before", b"after"]
    third.stop()
    assert digests(broker.directory) == before


def consumed(found: list[Seen]) -> list[ConsumedRecord]:
    return [
        (one.offset, one.timestamp_type, one.timestamp, one.key, one.value, one.headers)
        for one in found
        if not one.is_control
    ]


def start_and_read(
    new_broker: BrokerFactory, source: Path, target: Path, at_ms: int, found: dict[TopicPartition, list[Seen]]
) -> None:
    before = digests(source)
    snapshot(source, target, at_ms=at_ms, fs=LOCAL)
    broker = new_broker(target)
    broker.start()
    names = [str(one) for one in found if not one.topic.startswith("__") and until(found[one], at_ms)]
    seen = kafka_consume(broker.bootstrap, names) if names else {}
    for name in names:
        expected = consumed(until(found[TopicPartition.from_directory_name(name)], at_ms))
        assert [one[4] for one in seen[name]] == [one[4] for one in expected], (name, at_ms)
        assert [one[0] for one in seen[name]] == [one[0] for one in expected], (name, at_ms)
    assert errors(broker) == []
    broker.stop()
    assert digests(source) == before
    for name in names:
        assert LogView(LOCAL, target / name).log_end >= len(seen[name])


@pytest.mark.parametrize(
    "tenth",
    [pytest.param(number, marks=[] if number in (2, 6) else [pytest.mark.slow]) for number in range(10)],
)
@pytest.mark.parametrize("name", [EVERYTHING["4.4"], pytest.param(SCENARIOS, marks=pytest.mark.slow)])
def test_kafka_starts_on_snapshots_of_ten_times(
    name: str, tenth: int, golden_copy: GoldenFactory, new_broker: BrokerFactory, tmp_path: Path
) -> None:
    source = golden_copy(name, "unclean")
    found = {one: records(source, one) for one in data_partitions(source)}
    times = sorted({one.timestamp for seen in found.values() for one in seen if one.timestamp >= 0})
    start_and_read(new_broker, source, tmp_path / "snap", times[(len(times) - 1) * tenth // 9], found)
