"""Verification before transactional records are appended: the table of ``verification``, and guards of real logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.transactions.held_world import HeldWorld
from server.transactions.transaction_cases import refusal
from tidelog.model import InvalidProducerEpochError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal.transaction_state import TransactionState as State
from tidelog.server.transactions.rules.transaction import ProducerIdAndEpoch
from tidelog.server.transactions.verification import Operation, Verified, produce_error
from tidelog.storage.producer import NO_GUARD

EVENTS = TopicPartition("events", 0)
AUDIT = TopicPartition("audit", 0)
CHECKS = (Operation.CHECK, Operation.CHECK_ABORTABLE)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[HeldWorld]:
    made = HeldWorld(tmp_path)
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
def test_a_partition_that_was_added_is_good(world: HeldWorld, operation: Operation) -> None:
    producer = world.initialize()
    world.add(producer, EVENTS)
    verified = world.verify(producer, EVENTS, AUDIT, operation=operation)
    assert verified[EVENTS].error is ErrorCode.NONE
    assert verified[EVENTS].guard != NO_GUARD
    refused = ErrorCode.INVALID_TXN_STATE if operation is Operation.CHECK else ErrorCode.TRANSACTION_ABORTABLE
    assert verified[AUDIT].error is refused
    world.append(world.replicas.partition(EVENTS), producer, b"x", sequence=0, guard=verified[EVENTS].guard)
    assert world.verify(producer, EVENTS, operation=operation) == {EVENTS: Verified()}, "it has data: not asked again"


def test_adding_makes_partitions_part_of_the_transaction(world: HeldWorld) -> None:
    producer = world.initialize()
    verified = world.verify(producer, EVENTS, AUDIT)
    assert {one.error for one in verified.values()} == {ErrorCode.NONE}
    assert world.coordinator.describe("orders").record.partitions == {EVENTS, AUDIT}
    assert world.state() is State.ONGOING


@pytest.mark.parametrize("operation", list(Operation))
def test_a_fenced_producer_hears_the_code_that_producers_know(world: HeldWorld, operation: Operation) -> None:
    producer = world.initialize()
    world.initialize()
    assert world.verify(producer, EVENTS, operation=operation)[EVENTS].error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_epoch_older_than_the_logs_does_not_get_to_the_coordinator(world: HeldWorld) -> None:
    producer = world.initialize()
    verified = world.verify(producer, EVENTS)
    world.append(world.replicas.partition(EVENTS), producer, b"x", sequence=0, guard=verified[EVENTS].guard)
    world.end(producer, True)
    world.crash()
    world.coordinator.resigned(world.coordinator.partition_of("orders"))
    assert world.verify(producer, EVENTS, AUDIT) == {
        EVENTS: Verified(error=ErrorCode.INVALID_PRODUCER_EPOCH),
        AUDIT: Verified(world.verify(producer, AUDIT)[AUDIT].guard, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    }


def test_a_partition_that_is_not_led_here(world: HeldWorld) -> None:
    producer = world.initialize()
    world.replicas.partition(AUDIT).error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    verified = world.verify(producer, EVENTS, AUDIT)
    assert [verified[name].error for name in (EVENTS, AUDIT)] == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert world.coordinator.describe("orders").record.partitions == {EVENTS}


def test_a_marker_takes_the_guard_away(world: HeldWorld) -> None:
    """The producer is slow: its first batch arrives after the transaction's abort."""
    producer = world.initialize()
    verified = world.verify(producer, EVENTS, operation=Operation.ADD)
    refusal(world.initialize)
    with pytest.raises(InvalidProducerEpochError, match="in the log it has epoch 1"):
        world.append(world.replicas.partition(EVENTS), producer, b"late", sequence=0, guard=verified[EVENTS].guard)
    assert world.replicas.partition(EVENTS).offsets.log_end.message_offset == 1, "the marker alone"


def test_adding_waits_a_little_for_the_transaction_before(world: HeldWorld) -> None:
    producer = world.initialize()
    world.add(producer, AUDIT)
    world.replicas.partition(AUDIT).is_held = True
    following = world.end(producer, True)
    asked = world.begin(world.verifying(following, EVENTS, operation=Operation.ADD))
    world.pass_time(60)
    assert not asked.done()
    world.replicas.partition(AUDIT).release()
    world.pass_time(40)
    assert asked.result()[EVENTS].error is ErrorCode.NONE


def test_adding_does_not_wait_for_ever(world: HeldWorld) -> None:
    producer = world.initialize()
    world.add(producer, AUDIT)
    world.replicas.partition(AUDIT).is_held = True
    following = world.end(producer, True)
    asked = world.begin(world.verifying(following, EVENTS, operation=Operation.ADD))
    world.pass_time(200)
    assert asked.result()[EVENTS].error is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("operation", CHECKS)
def test_checking_does_not_wait(world: HeldWorld, operation: Operation) -> None:
    producer = world.initialize()
    world.add(producer, AUDIT)
    world.replicas.partition(AUDIT).is_held = True
    following = world.end(producer, True)
    verified = world.verify(following, EVENTS, operation=operation)
    assert verified[EVENTS].error is ErrorCode.CONCURRENT_TRANSACTIONS


def test_verification_may_be_switched_off_but_adding_may_not(world: HeldWorld) -> None:
    world.verifies = False
    stranger = ProducerIdAndEpoch(77, 0)
    assert world.verify(stranger, EVENTS, operation=Operation.CHECK) == {EVENTS: Verified()}
    assert world.verify(stranger, EVENTS)[EVENTS].error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


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
