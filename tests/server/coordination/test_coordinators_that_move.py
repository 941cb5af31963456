"""Transactions and groups on three brokers, while the brokers of their coordinators and leaders are killed in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition

from server.harness import BrokerHome
from server.joined_broker import running_brokers
from server.transactions.librdkafka import STAYS, polled, reader
from tidelog.model import TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.server.metadata.requests import NewTopic
from tidelog.server.topics.internal_topics import partition_of
from tidelog.testing.broker.loop_thread import PATIENCE_S

OUTPUT = "output"
TRIPLE = {
    "offsets_topic_replication_factor": "3",
    "offsets_topic_num_partitions": "3",
    "transaction_state_log_replication_factor": "3",
    "transaction_state_log_min_isr": "2",
    "transaction_state_log_num_partitions": "3",
    "group_initial_rebalance_delay_ms": "0",
    "min_insync_replicas": "2",
    "replica_fetch_wait_max_ms": "50",
}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[BrokerHome]]:
    with running_brokers(tmp_path, TRIPLE, count=3) as running:
        orders = ([1, 2, 3], [2, 3, 1], [3, 1, 2])
        topics = [
            NewTopic(name=name, assignments=tuple(enumerate(orders)))
            for name in (OUTPUT, TRANSACTION_STATE_TOPIC, GROUP_METADATA_TOPIC)
        ]
        made = running[0].run(lambda: running[0].server.controller.create_topics(topics))
        assert not any(one.error for one in made), made
        yield running


def in_sync(brokers: list[BrokerHome]) -> bool:
    """Return True if every partition has all replicas in sync. Run it on the loop."""
    image = brokers[0].server.metadata.image
    return all(len(state.isr) == len(state.replicas) for _topic, _number, state in image.partitions())


def transactional(brokers: list[BrokerHome], name: str) -> Producer:
    bootstrap = ",".join(home.bootstrap for home in brokers)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **STAYS})
    producer.init_transactions(PATIENCE_S)
    return producer


def committed(brokers: list[BrokerHome], partition: int) -> list[bytes]:
    consumer = reader(",".join(home.bootstrap for home in brokers))
    consumer.assign([ClientPartition(OUTPUT, partition, 0)])
    values = []
    while (message := polled(consumer)) is not None:
        values.append(message.value() or b"")
    consumer.close()
    return values


def commit(producer: Producer) -> bool:
    """Commit, and repeat that as often as the client says. Return False if the transaction had to be aborted."""
    while True:
        try:
            producer.commit_transaction(PATIENCE_S)
            return True
        except KafkaException as error:
            cause = error.args[0]
            if cause.txn_requires_abort():
                producer.abort_transaction(PATIENCE_S)
                return False
            if not cause.retriable():
                raise


def write_through_failures(brokers: list[BrokerHome], end: str, rounds: int) -> None:
    """Write with three producers. Broker 2 or 3 ends before each commit, and returns after it."""
    producers = [transactional(brokers, name) for name in ("a", "b", "c")]
    expected: list[bytes] = []
    for number in range(rounds):
        victim = brokers[1 + number % 2]
        for index, producer in enumerate(producers):
            producer.begin_transaction()
            for partition in range(3):
                producer.produce(OUTPUT, f"{number}.{index}".encode(), partition=partition)
            if index == number % 3:
                producer.flush(PATIENCE_S)
        getattr(victim, end)()
        done = [commit(producer) for producer in producers]
        expected += [f"{number}.{index}".encode() for index in range(3) if done[index]]
        victim.start()
        brokers[0].wait_for(lambda: in_sync(brokers))
    assert len(expected) >= 2 * rounds, "most transactions outlive their brokers"
    for partition in range(3):
        assert sorted(committed(brokers, partition)) == sorted(expected)


def test_transactions_are_all_or_nothing(brokers: list[BrokerHome]) -> None:
    write_through_failures(brokers, "kill", rounds=3)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["kill", "stop"])
def test_transactions_are_all_or_nothing_for_long(brokers: list[BrokerHome], end: str) -> None:
    write_through_failures(brokers, end, rounds=15)


def consumer_of(brokers: list[BrokerHome], protocol: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": ",".join(home.bootstrap for home in brokers),
            "group.id": group_of(protocol),
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **STAYS,
        }
    )


def commit_offsets(consumer: Consumer) -> None:
    """Commit the positions, and repeat that as often as the client says."""
    while True:
        try:
            consumer.commit(asynchronous=False)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_outlives_its_coordinators(brokers: list[BrokerHome], protocol: str) -> None:
    """The group keeps its member and its offsets: no record is read twice."""
    producer = Producer({"bootstrap.servers": ",".join(home.bootstrap for home in brokers), **STAYS})
    consumer = consumer_of(brokers, protocol)
    consumer.subscribe([OUTPUT])
    seen: list[bytes] = []
    moves = 0
    for number in range(3):
        for partition in range(3):
            producer.produce(OUTPUT, f"{number}.{partition}".encode(), partition=partition)
        producer.flush(PATIENCE_S)
        while len(seen) < 3 * (number + 1):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, "nothing came"
            if message.error() is None:
                seen.append(message.value() or b"")
        coordinator = coordinator_of(brokers, group_of(protocol))
        victim = brokers[coordinator - 1] if coordinator > 1 else brokers[1]
        victim.kill()
        moves += coordinator > 1
        commit_offsets(consumer)
        victim.start()
        brokers[0].wait_for(lambda: in_sync(brokers))
    assert moves >= 2
    assert sorted(seen) == sorted(f"{number}.{partition}".encode() for number in range(3) for partition in range(3))
    found = consumer.committed([ClientPartition(OUTPUT, partition) for partition in range(3)], PATIENCE_S)
    assert [one.offset for one in found] == [3, 3, 3]
    consumer.close()


def group_of(protocol: str) -> str:
    """Return a name whose first coordinator is broker 2, and the next one broker 3."""
    return next(name for name in (f"{protocol}-{number}" for number in range(100)) if partition_of(name, 3) == 1)


def coordinator_of(brokers: list[BrokerHome], group: str) -> int:
    name = TopicPartition(GROUP_METADATA_TOPIC, partition_of(group, 3))
    state = brokers[0].call(lambda: brokers[0].server.metadata.image.partition(name))
    assert state is not None
    return state.leader
