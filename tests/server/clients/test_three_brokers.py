"""The client libraries on a cluster of three processes: tests of one broker that use nothing but clients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from server.clients.test_offsets import (
    filled,
    test_a_consumer_whose_offset_is_gone_begins_where_it_was_told_to,
    test_aiokafka_finds_offsets_and_seeks,
    test_kafka_python_finds_offsets_and_seeks,
    test_librdkafka_finds_offsets_by_time,
    test_offsets_of_every_kind_and_after_a_deletion,
)
from server.clients.test_records import (
    test_records_come_back_as_they_were_sent,
    test_records_of_a_partition_keep_their_order,
)
from server.clients.test_transactions import (
    test_a_producer_of_the_same_name_fences_the_one_before,
    test_aiokafkas_transactions_are_all_or_nothing,
    test_kafka_pythons_transactions_are_all_or_nothing,
    test_librdkafkas_transactions_are_all_or_nothing,
)
from server.cluster.process_cluster import PATIENCE_S, ProcessCluster
from server.harness import KEEPING

__all__ = [
    "filled",
    "test_a_consumer_whose_offset_is_gone_begins_where_it_was_told_to",
    "test_a_producer_of_the_same_name_fences_the_one_before",
    "test_aiokafka_finds_offsets_and_seeks",
    "test_aiokafkas_transactions_are_all_or_nothing",
    "test_kafka_python_finds_offsets_and_seeks",
    "test_kafka_pythons_transactions_are_all_or_nothing",
    "test_librdkafka_finds_offsets_by_time",
    "test_librdkafkas_transactions_are_all_or_nothing",
    "test_offsets_of_every_kind_and_after_a_deletion",
    "test_records_come_back_as_they_were_sent",
    "test_records_of_a_partition_keep_their_order",
]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

REPLICATED = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "min.insync.replicas": "2",
}
_numbers = count(1)


class Stored(NamedTuple):
    value: bytes | None


class ThreeBrokers:
    """A cluster with the part of ``tidelog.testing.Broker`` that the tests use. Topics have three replicas."""

    def __init__(self, cluster: ProcessCluster) -> None:
        self._cluster = cluster
        self.bootstrap_servers = cluster.bootstrap

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self._cluster.create_topic(name, partitions)
        self._cluster.wait_until_in_sync(name)

    def recreate_topic(self, name: str) -> None:
        if name in self._cluster.admin.list_topics(timeout=PATIENCE_S).topics:
            (deleted,) = self._cluster.admin.delete_topics([name]).values()
            deleted.result(PATIENCE_S)
        self.create_topic(name)

    def records(self, topic: str) -> list[Stored]:
        """Return the committed records of a topic's first partition."""
        settings = {"bootstrap.servers": self.bootstrap_servers, "group.id": "nobody", "enable.auto.commit": False}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[Stored] = []
        try:
            while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
                found.append(Stored(message.value()))
            return found
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    with ProcessCluster(tmp_path_factory.mktemp("cluster"), {**KEEPING, **REPLICATED}) as cluster:
        yield ThreeBrokers(cluster)


@pytest.fixture
def own_broker(broker: ThreeBrokers) -> ThreeBrokers:
    for name in ("t", "out"):
        broker.recreate_topic(name)
    return broker


@pytest.fixture
def topic(broker: ThreeBrokers) -> str:
    """Create a topic with two partitions."""
    name = f"topic-{next(_numbers)}"
    broker.create_topic(name, 2)
    return name
