"""The client libraries on three processes: records, offsets, topics and transactions, also while brokers end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from server.clients.adapters import Librdkafka, Sent
from server.clients.test_administration import (
    admin,
    changed,
    test_a_topic_comes_grows_and_goes,
    test_a_topic_that_came_again_is_another_one,
    test_kafka_python_sees_what_librdkafka_made,
    test_settings_of_a_topic_are_described_and_altered,
    test_the_cluster_has_these_brokers,
)
from server.clients.test_offsets import (
    filled,
    test_a_consumer_whose_offset_is_gone_begins_where_it_was_told_to,
    test_aiokafka_finds_offsets_and_seeks,
    test_kafka_python_finds_offsets_and_seeks,
    test_librdkafka_finds_offsets_by_time,
    test_offsets_of_every_kind_and_after_a_deletion,
)
from server.clients.test_records import (
    test_a_producer_goes_on_after_a_new_epoch_and_a_restart,
    test_records_come_back_as_they_were_sent,
    test_records_of_a_partition_keep_their_order,
)
from server.clients.test_transactions import (
    producer,
    test_a_producer_of_the_same_name_fences_the_one_before,
    test_aiokafkas_transactions_are_all_or_nothing,
    test_consume_transform_produce_is_once_whatever_happens,
    test_kafka_pythons_transactions_are_all_or_nothing,
    test_librdkafkas_transactions_are_all_or_nothing,
    values,
)
from server.clients.three_brokers import ThreeBrokers, three_brokers
from server.cluster.process_cluster import PATIENCE_S

__all__ = [
    "admin",
    "changed",
    "filled",
    "test_a_consumer_whose_offset_is_gone_begins_where_it_was_told_to",
    "test_a_producer_goes_on_after_a_new_epoch_and_a_restart",
    "test_a_producer_of_the_same_name_fences_the_one_before",
    "test_a_topic_comes_grows_and_goes",
    "test_a_topic_that_came_again_is_another_one",
    "test_aiokafka_finds_offsets_and_seeks",
    "test_aiokafkas_transactions_are_all_or_nothing",
    "test_consume_transform_produce_is_once_whatever_happens",
    "test_kafka_python_finds_offsets_and_seeks",
    "test_kafka_python_sees_what_librdkafka_made",
    "test_kafka_pythons_transactions_are_all_or_nothing",
    "test_librdkafka_finds_offsets_by_time",
    "test_librdkafkas_transactions_are_all_or_nothing",
    "test_offsets_of_every_kind_and_after_a_deletion",
    "test_records_come_back_as_they_were_sent",
    "test_records_of_a_partition_keep_their_order",
    "test_settings_of_a_topic_are_described_and_altered",
    "test_the_cluster_has_these_brokers",
]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TRANSACTION_MS = 3000
_numbers = count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    configs = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
    with three_brokers(tmp_path_factory.mktemp("cluster"), configs) as running:
        yield running


@pytest.fixture
def own_broker(broker: ThreeBrokers) -> ThreeBrokers:
    for name in ("t", "out"):
        broker.recreate_topic(name)
    return broker


@pytest.fixture
def settle(broker: ThreeBrokers) -> Callable[[], None]:
    return broker.cluster.wait_for_metadata


@pytest.fixture
def topic(broker: ThreeBrokers) -> str:
    """Create a topic with two partitions."""
    name = f"topic-{next(_numbers)}"
    broker.create_topic(name, 2)
    return name


def test_a_transaction_that_nobody_ends_is_aborted_after_its_timeout(own_broker: ThreeBrokers) -> None:
    """The counterpart of the test with a manual clock, which processes do not have."""
    writer = producer(own_broker, "forgetful", **{"transaction.timeout.ms": TRANSACTION_MS})
    begin = time.monotonic()
    writer.begin_transaction()
    writer.produce("t", b"forgotten")
    writer.flush(PATIENCE_S)
    Librdkafka().produce(own_broker.bootstrap_servers, "t", [Sent(b"behind it")])
    own_broker.cluster.wait_for("the transaction is aborted", lambda: values(own_broker) == [b"behind it"])
    assert time.monotonic() - begin >= TRANSACTION_MS / 1000
