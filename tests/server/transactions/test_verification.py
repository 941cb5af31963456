"""Verification before transactional records are appended: the table of ``verification``, and guards of real logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.transactions.coordinator_harness import CoordinatorHarness
from server.transactions.transaction_cases import refusal
from tidelog.model import InvalidProducerEpochError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch
from tidelog.record.internal_records.transaction_record import TransactionState as State
from tidelog.server.transactions.verification import Operation, Verified, produce_error
from tidelog.storage.producer import NO_GUARD

EVENTS = TopicPartition("events", 0)
AUDIT = TopicPartition("audit", 0)
CHECKS = (Operation.CHECK, Operation.CHECK_ABORTABLE)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[CoordinatorHarness]:
    made = CoordinatorHarness(tmp_path)
    made.replicas.make(EVENTS)
    made.replicas.make(AUDIT)
    yield made
    made.close()


def test_what_a_version_can_do() -> None:
    assert [Operation.of_produce(version) for version in (3, 10, 11, 12, 13)] == [
        Operation.CHECK,
        Operation.CHECK,
        Operation.CHECK_ABORTABLE,
        Operation.ADD,
        Operation.ADD,
    ]
    assert [Operation.of_offset_commit(version) for version in (0, 3, 4, 5)] == [
        Operation.CHECK,
        Operation.CHECK,
        Operation.CHECK_ABORTABLE,
        Operation.ADD,
    ]


@pytest.mark.parametrize("operation", CHECKS)
def test_a_partition_that_was_added_is_good(harness: CoordinatorHarness, operation: Operation) -> None:
    producer = harness.initialize()
    harness.add(producer, EVENTS)
    verified = harness.verify(producer, EVENTS, AUDIT, operation=operation)
    assert verified[EVENTS].error is ErrorCode.NONE
    assert verified[EVENTS].guard != NO_GUARD
    refused = ErrorCode.INVALID_TXN_STATE if operation is Operation.CHECK else ErrorCode.TRANSACTION_ABORTABLE
    assert verified[AUDIT].error is refused
    harness.append(harness.replicas.partition(EVENTS), producer, b"x", sequence=0, guard=verified[EVENTS].guard)
    assert harness.verify(producer, EVENTS, operation=operation) == {EVENTS: Verified()}, "it has data: not asked again"


def test_adding_makes_partitions_part_of_the_transaction(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    verified = harness.verify(producer, EVENTS, AUDIT)
    assert {one.error for one in verified.values()} == {ErrorCode.NONE}
    assert harness.coordinator.describe("orders").record.partitions == {EVENTS, AUDIT}
    assert harness.state() is State.ONGOING


@pytest.mark.parametrize("operation", list(Operation))
def test_a_fenced_producer_hears_the_code_that_producers_know(
    harness: CoordinatorHarness, operation: Operation
) -> None:
    producer = harness.initialize()
    harness.initialize()
    assert harness.verify(producer, EVENTS, operation=operation)[EVENTS].error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_epoch_older_than_the_logs_does_not_get_to_the_coordinator(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    verified = harness.verify(producer, EVENTS)
    harness.append(harness.replicas.partition(EVENTS), producer, b"x", sequence=0, guard=verified[EVENTS].guard)
    harness.end(producer, True)
    harness.crash()
    harness.coordinator.resigned(harness.coordinator.partition_of("orders"))
    assert harness.verify(producer, EVENTS, AUDIT) == {
        EVENTS: Verified(error=ErrorCode.INVALID_PRODUCER_EPOCH),
        AUDIT: Verified(harness.verify(producer, AUDIT)[AUDIT].guard, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    }


def test_a_partition_that_is_not_led_here(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    harness.replicas.partition(AUDIT).error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    verified = harness.verify(producer, EVENTS, AUDIT)
    assert [verified[name].error for name in (EVENTS, AUDIT)] == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert harness.coordinator.describe("orders").record.partitions == {EVENTS}


def test_a_marker_takes_the_guard_away(harness: CoordinatorHarness) -> None:
    """The producer is slow: its first batch arrives after the transaction's abort."""
    producer = harness.initialize()
    verified = harness.verify(producer, EVENTS, operation=Operation.ADD)
    refusal(harness.initialize)
    with pytest.raises(InvalidProducerEpochError, match="in the log it has epoch 1"):
        harness.append(harness.replicas.partition(EVENTS), producer, b"late", sequence=0, guard=verified[EVENTS].guard)
    assert harness.replicas.partition(EVENTS).offsets.log_end.message_offset == 1, "the marker alone"


def test_adding_waits_a_little_for_the_transaction_before(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    harness.add(producer, AUDIT)
    harness.replicas.partition(AUDIT).is_held = True
    following = harness.end(producer, True)
    asked = harness.begin(harness.verifying(following, EVENTS, operation=Operation.ADD))
    harness.pass_time(60)
    assert not asked.done()
    harness.replicas.partition(AUDIT).release()
    harness.pass_time(40)
    assert asked.result()[EVENTS].error is ErrorCode.NONE


def test_adding_does_not_wait_for_ever(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    harness.add(producer, AUDIT)
    harness.replicas.partition(AUDIT).is_held = True
    following = harness.end(producer, True)
    asked = harness.begin(harness.verifying(following, EVENTS, operation=Operation.ADD))
    harness.pass_time(200)
    assert asked.result()[EVENTS].error is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("operation", CHECKS)
def test_checking_does_not_wait(harness: CoordinatorHarness, operation: Operation) -> None:
    producer = harness.initialize()
    harness.add(producer, AUDIT)
    harness.replicas.partition(AUDIT).is_held = True
    following = harness.end(producer, True)
    verified = harness.verify(following, EVENTS, operation=operation)
    assert verified[EVENTS].error is ErrorCode.CONCURRENT_TRANSACTIONS


def test_verification_may_be_switched_off_but_adding_may_not(harness: CoordinatorHarness) -> None:
    harness.verifies = False
    stranger = ProducerIdAndEpoch(77, 0)
    assert harness.verify(stranger, EVENTS, operation=Operation.CHECK) == {EVENTS: Verified()}
    assert harness.verify(stranger, EVENTS)[EVENTS].error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("operation", list(Operation))
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_what_a_producer_is_told(operation: Operation, error: ErrorCode, told: ErrorCode) -> None:
    answer = produce_error(error, operation)
    assert isinstance(answer, ApiError)
    assert answer.code is told
    assert (error.name in answer.message) or told is ErrorCode.INVALID_TXN_STATE


def test_a_busy_transaction_is_told_as_such_only_to_those_who_know_it() -> None:
    busy = ErrorCode.CONCURRENT_TRANSACTIONS
    assert produce_error(busy, Operation.ADD).code is busy
    for operation in CHECKS:
        assert produce_error(busy, operation).code is ErrorCode.NOT_ENOUGH_REPLICAS
