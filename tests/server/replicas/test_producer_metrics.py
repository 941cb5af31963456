"""Metrics of the producers in all partitions: their number, and transactions that are open too long (KIP-664)."""

from __future__ import annotations

from log_maker import BASE_TIME, batch, marker
from server.replicas.replica_harness import NODE, ReplicaHarness
from tidelog.model import TopicPartition
from tidelog.server.replicas.replica_metrics import replica_samples
from tidelog.storage.producer import LATE_TRANSACTION_BUFFER_MS, NO_GUARD, AppendOrigin

MAX_TIMEOUT_MS = 900_000
"""Kafka's default of transaction.max.timeout.ms."""
TRANSACTIONAL = 0x10
FOLLOWER = 2


def gauge(harness: ReplicaHarness, name: str) -> float | None:
    (value,) = [sample.values["Value"] for sample in replica_samples(harness.replicas) if sample.name.name == name]
    return value


def append(harness: ReplicaHarness, producer_id: int, sequence: int, number: int = 0, attributes: int = 0) -> None:
    partition = harness.partition(TopicPartition("t", number))
    guard = partition.log.start_verification(producer_id, sequence, 0) if attributes else NO_GUARD
    sent = batch(0, (b"a",), timestamp=BASE_TIME, producer_id=producer_id, sequence=sequence, attributes=attributes)
    partition.append(bytearray(sent), guard=guard)


def test_producers_are_counted_in_each_partition(harness: ReplicaHarness) -> None:
    harness.create("t", 2)
    counts = [gauge(harness, "ProducerIdCount")]
    for producer_id, sequence, number in ((7, 0, 0), (7, 1, 0), (8, 0, 0), (7, 0, 1)):
        append(harness, producer_id, sequence, number)
        counts.append(gauge(harness, "ProducerIdCount"))
    assert counts == [0, 1, 1, 2, 3]
    harness.clock.now += harness.log().config.producer_id_expiration_ms + 1
    harness.log().remove_expired_producers()
    assert gauge(harness, "ProducerIdCount") == 1


def test_a_transaction_is_late_five_minutes_after_the_largest_timeout(harness: ReplicaHarness) -> None:
    harness.create("t")
    append(harness, 7, 0, attributes=TRANSACTIONAL)
    late = "PartitionsWithLateTransactionsCount"
    harness.clock.now = BASE_TIME + MAX_TIMEOUT_MS + LATE_TRANSACTION_BUFFER_MS
    assert gauge(harness, late) == 0
    harness.clock.now += 1
    assert gauge(harness, late) == 1
    harness.partition().append(bytearray(marker(0, committed=False)), origin=AppendOrigin.COORDINATOR)
    assert gauge(harness, late) == 0


def test_a_follower_counts_no_late_transaction(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE, FOLLOWER))
    append(harness, 7, 0, attributes=TRANSACTIONAL)
    harness.clock.now = BASE_TIME + MAX_TIMEOUT_MS + LATE_TRANSACTION_BUFFER_MS + 1
    assert gauge(harness, "PartitionsWithLateTransactionsCount") == 1
    harness.change(TopicPartition("t", 0), leader=FOLLOWER, leader_epoch=1, partition_epoch=1)
    assert gauge(harness, "PartitionsWithLateTransactionsCount") == 0
    assert gauge(harness, "ProducerIdCount") == 1
