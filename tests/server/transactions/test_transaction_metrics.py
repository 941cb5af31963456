"""A transaction coordinator's metrics: loads of its partitions, and delayed markers and transactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.groups.group_broker import group_broker
from server.transactions.coordinator_harness import CoordinatorHarness
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.transactions.completions import RETRY_MS
from tidelog.server.transactions.transaction_metrics import METRICS

EVENTS, AUDIT = TopicPartition("events", 0), TopicPartition("audit", 0)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[CoordinatorHarness]:
    made = CoordinatorHarness(tmp_path)
    made.replicas.make(EVENTS)
    made.replicas.make(AUDIT)
    yield made
    made.close()


def reported(harness: CoordinatorHarness) -> dict[str, float]:
    return {sample.name.name: sample.values.get("Value", -1) for sample in harness.coordinator.samples()}


def waiting(harness: CoordinatorHarness) -> tuple[float, float]:
    """Return the numbers of transactions that wait for leaders, and of those whose end could not be written."""
    values = reported(harness)
    return values["UnknownDestinationQueueSize"], values["LogAppendRetryQueueSize"]


def test_a_marker_without_a_leader_and_an_end_that_cannot_be_written_wait(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    harness.add(producer, EVENTS)
    assert waiting(harness) == (0, 0)
    events, state = harness.replicas.partition(EVENTS), harness.state_partition()
    events.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    harness.end(producer, True)
    assert waiting(harness) == (1, 0)
    events.error, state.error = None, ErrorCode.NOT_ENOUGH_REPLICAS
    harness.pass_time(3 * RETRY_MS)
    assert waiting(harness) == (0, 1)
    state.error = None
    harness.pass_time(3 * RETRY_MS)
    assert waiting(harness) == (0, 0)


def test_loads_of_partitions_are_measured(harness: CoordinatorHarness) -> None:
    assert reported(harness)["partition-load-time-max"] >= 0
    assert reported(harness)["partition-load-time-avg"] >= 0
    names = {(sample.name.group, sample.name.type) for sample in harness.coordinator.samples()}
    assert names == {
        ("kafka.server", "transaction-coordinator-metrics"),
        ("kafka.coordinator.transaction", "TransactionMarkerChannelManager"),
        ("kafka.server", "AddPartitionsToTxnManager"),
    }


def test_only_missing_leaders_count_and_once_for_each_transaction(harness: CoordinatorHarness) -> None:
    """A marker that is retried for another reason is in the queue of a broker, which Kafka does not count."""
    partitions = [harness.replicas.partition(name) for name in (EVENTS, AUDIT)]
    producer = harness.initialize()
    harness.add(producer, EVENTS)
    harness.add(producer, AUDIT)
    for partition in partitions:
        partition.error = ErrorCode.NOT_ENOUGH_REPLICAS
    harness.end(producer, True)
    assert waiting(harness) == (0, 0)
    for partition in partitions:
        partition.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    harness.pass_time(3 * RETRY_MS)
    assert waiting(harness) == (1, 0)
    for partition in partitions:
        partition.error = None
    harness.pass_time(3 * RETRY_MS)
    assert waiting(harness) == (0, 0)


def test_it_is_told_by_a_broker_with_a_coordinator_until_the_end(tmp_path: Path) -> None:
    with group_broker(tmp_path / "data") as groups:

        def told() -> set[str]:
            names = {one.name for one in METRICS}
            types = (
                "transaction-coordinator-metrics",
                "TransactionMarkerChannelManager",
                "AddPartitionsToTxnManager",
            )
            samples = groups.harness.broker.metrics.samples()
            return {sample.name.name for sample in samples if sample.name.type in types} & names

        assert not told()
        found = groups.client.call(ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=["tx"])
        assert found.coordinators[0].error_code == 0
        assert told() == {one.name for one in METRICS}
        groups.harness.stop()
        assert not told()
