"""Transactions of real clients are atomic and take effect once, even if the broker or the producer fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from server.clients.adapters import Librdkafka, Sent, Served, run
from server.harness import KEEPING
from tidelog.testing import ApiKey, Broker
from tidelog.testing.broker.loop_thread import PATIENCE_S


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    with Broker(configs=KEEPING) as broker:
        broker.create_topic("t")
        broker.create_topic("out")
        yield broker


def producer(broker: Served, name: str = "x", **settings: Any) -> Producer:
    """Return a producer that is ready to begin transactions."""
    own = {
        "bootstrap.servers": broker.bootstrap_servers,
        "transactional.id": name,
        "retry.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "log_level": 0,
    }
    made = Producer(own | settings)
    made.init_transactions(PATIENCE_S)
    return made


def values(broker: Served, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def test_librdkafkas_transactions_are_all_or_nothing(own_broker: Broker) -> None:
    writer = producer(own_broker)
    for number in range(4):
        writer.begin_transaction()
        for part in b"ab":
            writer.produce("t", b"%d%c" % (number, part))
        writer.flush(PATIENCE_S)
        assert b"%da" % number not in values(own_broker)
        if number % 2:
            writer.abort_transaction(PATIENCE_S)
        else:
            writer.commit_transaction(PATIENCE_S)
    assert values(own_broker) == [b"0a", b"0b", b"2a", b"2b"]
    with reader(own_broker) as consumer:
        assert [message.value() for message in consumer.consume(4, PATIENCE_S)] == [b"0a", b"0b", b"2a", b"2b"]


def test_aiokafkas_transactions_are_all_or_nothing(own_broker: Broker) -> None:
    async def written() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=own_broker.bootstrap_servers, transactional_id="x"
        ) as writer:
            async with writer.transaction():
                await writer.send_and_wait("t", b"kept")
            await writer.begin_transaction()
            await writer.send_and_wait("t", b"dropped")
            await writer.abort_transaction()

    run(written)
    assert values(own_broker) == [b"kept"]


def test_kafka_pythons_transactions_are_all_or_nothing(own_broker: Broker) -> None:
    writer = kafka.KafkaProducer(bootstrap_servers=own_broker.bootstrap_servers, transactional_id="x")
    try:
        writer.init_transactions()
        writer.begin_transaction()
        writer.send("t", b"kept")
        writer.commit_transaction()
        writer.begin_transaction()
        writer.send("t", b"dropped").get(PATIENCE_S)
        writer.abort_transaction()
    finally:
        writer.close()
    assert values(own_broker) == [b"kept"]


def test_a_producer_of_the_same_name_fences_the_one_before(own_broker: Broker) -> None:
    first = producer(own_broker)
    first.begin_transaction()
    first.produce("t", b"of the first")
    first.flush(PATIENCE_S)
    second = producer(own_broker)
    second.begin_transaction()
    second.produce("t", b"of the second")
    second.commit_transaction(PATIENCE_S)
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction(PATIENCE_S)
    assert raised.value.args[0].fatal()
    assert values(own_broker) == [b"of the second"]


def test_a_transaction_that_nobody_ends_is_aborted_in_time() -> None:
    with Broker(manual_time=True) as broker:
        broker.create_topic("t")
        writer = producer(broker, "x", **{"transaction.timeout.ms": 60_000})
        writer.begin_transaction()
        writer.produce("t", b"forgotten")
        writer.flush(PATIENCE_S)
        Librdkafka().produce(broker.bootstrap_servers, "t", [Sent(b"behind it")])
        assert values(broker) == []
        broker.advance(50_000)
        assert values(broker) == []
        broker.advance(30_000)
        assert values(broker) == [b"behind it"]
        with pytest.raises(KafkaException):
            writer.commit_transaction(PATIENCE_S)


@pytest.mark.parametrize("disturbance", ["lost answers", "restart", "kill"])
def test_an_open_transaction_outlives_the_broker(own_broker: Broker, disturbance: str) -> None:
    writer = producer(own_broker)
    for number in range(3):
        writer.begin_transaction()
        writer.produce("t", b"%da" % number)
        writer.flush(PATIENCE_S)
        if disturbance == "lost answers":
            for api in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.END_TXN):
                own_broker.lose_response(api)
        elif disturbance == "restart":
            own_broker.restart()
        else:
            own_broker.kill()
            own_broker.start()
        writer.produce("t", b"%db" % number)
        writer.commit_transaction(PATIENCE_S)
        own_broker.forget_faults()
    assert values(own_broker) == [b"%d%c" % (number, part) for number in range(3) for part in b"ab"]


@contextmanager
def reader(broker: Broker) -> Iterator[Consumer]:
    """Yield a consumer that is always the same static member, so that it replaces a dead consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "group",
            "group.instance.id": "reader",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(["t"])
    try:
        yield consumer
    finally:
        consumer.close()


def transform(consumer: Consumer, writer: Producer) -> int:
    """Run one transaction without its commit: write the transformed records and their offsets. Return their number."""
    writer.begin_transaction()
    messages = consumer.consume(10, 0.2)
    for message in messages:
        writer.produce("out", b"<%s>" % (message.value() or b""))
    if messages:
        positions = consumer.position(consumer.assignment())
        writer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE_S)
    return len(messages)


def test_consume_transform_produce_is_once_whatever_happens(own_broker: Broker) -> None:
    """A new transformer continues after the old one and the broker died with an open transaction."""
    total = 60
    Librdkafka().produce(own_broker.bootstrap_servers, "t", [Sent(b"%d" % number) for number in range(total)])
    ends = iter([own_broker.kill, own_broker.stop, own_broker.kill])
    done, end = 0, next(ends, None)
    while done < total:
        with reader(own_broker) as consumer:
            writer = producer(own_broker, "transformer")
            is_first = True
            while done < total:
                count = transform(consumer, writer)
                if count and end is not None and not is_first:
                    end()
                    own_broker.start()
                    end = next(ends, None)
                    break
                writer.commit_transaction(PATIENCE_S)
                done += count
                is_first = is_first and not count
    assert end is None
    assert values(own_broker, "out") == [b"<%d>" % number for number in range(total)]
