"""Transactions over two brokers: coordinators, leaders and groups on either of them, with librdkafka's clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition as ClientPartition

from server.harness import BrokerHome
from server.joined_broker import running_brokers
from server.transactions.librdkafka import SINGLE_NODE, committed, polled, reader, transactional
from server.transactions.test_produce import ADDS, CHECKS, CHECKS_ABORTABLE, produce
from server.transactions.test_wire import described, end, initialized
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.metadata.requests import NewTopic
from tidelog.server.topics.internal_topics import partition_of
from tidelog.testing.broker.loop_thread import PATIENCE_S

INPUT, HERE, THERE = "input", "here", "there"
LEADERS = {HERE: 1, THERE: 2, INPUT: 2}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerHome]]:
    with running_brokers(tmp_path_factory.mktemp("brokers"), SINGLE_NODE) as running:
        both = ((0, [1]), (1, [2]))
        topics = [NewTopic(name=name, assignments=both) for name in (TRANSACTION_STATE_TOPIC, GROUP_METADATA_TOPIC)]
        topics += [NewTopic(name=name, assignments=((0, [leader]),)) for name, leader in LEADERS.items()]
        made = running[0].run(lambda: running[0].server.controller.create_topics(topics))
        assert not any(one.error for one in made), made
        yield running


def names_of(prefix: str) -> list[str]:
    """Return a name whose coordinator is broker 1, and one whose coordinator is broker 2."""
    names = [f"{prefix}-{number}" for number in range(100)]
    return [next(name for name in names if partition_of(name, 2) == number) for number in (0, 1)]


def test_each_broker_knows_all_coordinators(brokers: list[BrokerHome]) -> None:
    for key_type, prefix in ((0, "group"), (1, "transactional")):
        names = names_of(prefix)
        for home in brokers:
            with home.client() as client:
                found = client.call(ApiKey.FIND_COORDINATOR, key_type=key_type, coordinator_keys=names).coordinators
            assert [(one.error_code, one.node_id, one.port) for one in found] == [
                (ErrorCode.NONE, number, brokers[number - 1].port) for number in (1, 2)
            ]


@pytest.mark.parametrize("coordinator", [1, 2])
def test_what_is_committed_is_read_and_what_is_aborted_is_not(brokers: list[BrokerHome], coordinator: int) -> None:
    bootstrap = brokers[0].bootstrap
    before = {topic: committed(bootstrap, topic) for topic in (HERE, THERE)}
    producer = transactional(bootstrap, names_of("transactional")[coordinator - 1])
    for number in range(6):
        producer.begin_transaction()
        for topic in (HERE, THERE):
            producer.produce(topic, f"{coordinator}.{number}".encode())
        if number % 3 == 2:
            producer.flush(PATIENCE_S)
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    expected = [f"{coordinator}.{number}".encode() for number in (0, 1, 3, 4)]
    for topic in (HERE, THERE):
        assert committed(brokers[1].bootstrap, topic) == before[topic] + expected


@pytest.mark.parametrize("coordinator", [1, 2])
@pytest.mark.parametrize("group_coordinator", [1, 2])
def test_offsets_are_committed_with_their_transaction(
    brokers: list[BrokerHome], coordinator: int, group_coordinator: int
) -> None:
    bootstrap = brokers[0].bootstrap
    group = names_of(f"group-{coordinator}")[group_coordinator - 1]
    producer = transactional(bootstrap, names_of("transactional")[coordinator - 1])
    consumer = reader(bootstrap, group)
    consumer.subscribe([INPUT])
    polled(consumer)
    for number, commits in enumerate((True, False, True), 1):
        producer.begin_transaction()
        producer.produce(HERE, b"offsets")
        offsets = [ClientPartition(INPUT, 0, number)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
        if commits:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
        (found,) = consumer.committed([ClientPartition(INPUT, 0)], PATIENCE_S)
        assert found.offset == (number if commits else number - 1)
    consumer.close()


@pytest.mark.parametrize("coordinator", [1, 2])
def test_a_leader_asks_the_coordinator_on_another_broker(brokers: list[BrokerHome], coordinator: int) -> None:
    """Records of a partition that is not part of the transaction are refused, or add it from version 12 on."""
    name, topic = names_of("verified")[coordinator - 1], THERE if coordinator == 1 else HERE
    with brokers[coordinator - 1].client() as owner, brokers[2 - coordinator].client() as leader:
        producer = initialized(owner, name)
        refused = [
            produce(leader, name, producer, b"refused", topic=topic, version=version).error_code
            for version in (CHECKS, CHECKS_ABORTABLE)
        ]
        assert refused == [ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE]
        before = produce(leader, name, producer, b"aborted", topic=topic, version=ADDS)
        assert before.error_code == ErrorCode.NONE
        assert [one.topic for one in described(owner, name).topics] == [topic]
        following = end(owner, name, producer, False)
        assert following.error_code == ErrorCode.NONE
        brokers[0].wait_for(lambda: is_complete(brokers[coordinator - 1], name))
        fenced = produce(leader, name, producer, b"late", topic=topic, sequence=1, version=ADDS)
        assert fenced.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert not {b"refused", b"aborted", b"late"} & set(committed(brokers[0].bootstrap, topic))


def test_a_producer_retries_while_its_coordinators_broker_is_away(brokers: list[BrokerHome]) -> None:
    name = names_of("away")[1]
    with brokers[1].client() as owner:
        producer = initialized(owner, name)
    brokers[1].stop()
    try:
        with brokers[0].client() as leader:
            part = produce(leader, name, producer, b"x", topic=HERE, version=ADDS)
            assert part.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    finally:
        brokers[1].start()
    with brokers[0].client() as leader:
        while (part := produce(leader, name, producer, b"x", topic=HERE, version=ADDS)).error_code:
            assert part.error_code == ErrorCode.NOT_ENOUGH_REPLICAS, "the coordinator loads"
    with brokers[1].client() as owner:
        assert end(owner, name, producer, True).error_code == ErrorCode.NONE


def test_a_decided_transaction_waits_for_a_leader_that_is_away(brokers: list[BrokerHome]) -> None:
    name = names_of("decided")[0]
    with brokers[0].client() as owner:
        producer = initialized(owner, name)
        with brokers[1].client() as leader:
            assert produce(leader, name, producer, b"decided", topic=THERE, version=ADDS).error_code == ErrorCode.NONE
        brokers[1].stop()
        try:
            assert end(owner, name, producer, True).error_code == ErrorCode.NONE
            assert not brokers[0].call(lambda: is_complete(brokers[0], name))
        finally:
            brokers[1].start()
        brokers[0].wait_for(lambda: is_complete(brokers[0], name))
    assert committed(brokers[0].bootstrap, THERE)[-1] == b"decided"


def is_complete(home: BrokerHome, name: str) -> bool:
    """Return True if the transactional id has no open transaction. Run it on the loop."""
    return home.server.transactions.describe(name).record.is_idle
