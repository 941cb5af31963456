"""A coordinator with its log, its partitions and its clients: one scenario a test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.transactions.held_world import START, STATE_PARTITIONS, TIMEOUT_MS, HeldWorld
from server.transactions.local_replicas import LocalPartition
from server.transactions.transaction_cases import refusal
from tidelog.model import Record, TimestampType, TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.record.build import build_batch
from tidelog.record.internal.transaction_state import TransactionState as State
from tidelog.server.topic_name import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.server.transactions.listing import TransactionFilter
from tidelog.server.transactions.rules.initialization import Initialization
from tidelog.server.transactions.rules.state_records import key_of
from tidelog.server.transactions.rules.transaction import LAST_EPOCH, ProducerIdAndEpoch
from tidelog.storage.producer import AppendOrigin

EVENTS = TopicPartition("events", 0)
AUDIT = TopicPartition("audit", 0)
WAIT = ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.fixture
def world(tmp_path: Path) -> Iterator[HeldWorld]:
    made = HeldWorld(tmp_path)
    made.replicas.make(EVENTS)
    made.replicas.make(AUDIT)
    yield made
    made.close()


@pytest.fixture
def old_world(tmp_path: Path) -> Iterator[HeldWorld]:
    """Yield a harness with transactions of version 1."""
    made = HeldWorld(tmp_path, server_version=1)
    made.replicas.make(EVENTS)
    yield made
    made.close()


def write(world: HeldWorld, name: TopicPartition, producer: ProducerIdAndEpoch, value: bytes = b"x") -> int:
    """Append a record as a producer of version 2: this adds the partition to the transaction."""
    verified = world.verify(producer, name)[name]
    assert verified.error is ErrorCode.NONE, verified
    partition = world.replicas.partition(name)
    return world.append(partition, producer, value, sequence=0, guard=verified.guard)


def last_stable(partition: LocalPartition) -> int:
    return partition.offsets.last_stable.message_offset


# --- one transaction ---


def test_a_commit_is_decided_answered_marked_and_completed(world: HeldWorld) -> None:
    producer = world.initialize()
    assert producer == (1000, 0)
    write(world, EVENTS, producer)
    assert world.state() is State.ONGOING
    assert last_stable(world.replicas.partition(EVENTS)) == 0
    assert world.end(producer, True) == (1000, 1)
    assert world.state() is State.COMPLETE_COMMIT
    events = world.replicas.partition(EVENTS)
    assert (last_stable(events), events.offsets.log_end.message_offset) == (2, 2)
    assert events.log.producers[1000].producer_epoch == 1, "the marker has the new epoch"


def test_the_client_is_answered_before_the_markers_are_written(world: HeldWorld) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    world.replicas.partition(EVENTS).is_held = True
    assert world.end(producer, True) == (1000, 1)
    assert world.state() is State.PREPARE_COMMIT
    following = ProducerIdAndEpoch(1000, 1)
    assert refusal(lambda: world.add(following, AUDIT)) is WAIT
    assert refusal(lambda: world.end(producer, True)) is WAIT, "a retry"
    world.replicas.partition(EVENTS).release()
    world.settle()
    assert world.state() is State.COMPLETE_COMMIT
    world.add(following, AUDIT)
    assert world.state() is State.ONGOING


def test_a_retried_end_is_answered_with_the_producer_as_it_is_now(world: HeldWorld) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    following = world.end(producer, True)
    assert world.end(producer, True) == following
    assert refusal(lambda: world.end(producer, False)) is ErrorCode.INVALID_TXN_STATE


def test_offsets_of_a_group_are_completed_with_the_marker(world: HeldWorld) -> None:
    offsets = TopicPartition(GROUP_METADATA_TOPIC, 3)
    world.replicas.make(offsets)
    for committed in (True, False):
        producer = world.initialize()
        write(world, offsets, producer)
        world.end(producer, committed)
    assert world.completed_offsets == [(3, 1000, True), (3, 1000, False)]


def test_the_answer_waits_for_the_log(world: HeldWorld) -> None:
    state = world.state_partition()
    state.is_held = True
    wish = Initialization(timeout_ms=TIMEOUT_MS)
    asked = world.begin(world.coordinator.initialize("orders", wish))
    assert not asked.done()
    assert refusal(world.initialize) is WAIT
    state.release()
    world.settle()
    assert asked.result() == (1000, 0)


def test_the_last_epoch_brings_a_new_producer_id_with_the_answer(world: HeldWorld) -> None:
    world.initialize()
    world.leave(producer_epoch=LAST_EPOCH)
    last = ProducerIdAndEpoch(1000, LAST_EPOCH)
    write(world, EVENTS, last)
    world.replicas.partition(EVENTS).is_held = True
    following = world.end(last, True)
    assert following == (2000, 0)
    world.replicas.partition(EVENTS).is_held = False
    world.crash()  # the next coordinator still knows the promised producer id
    assert world.state() is State.COMPLETE_COMMIT
    assert world.end(last, True) == following
    write(world, EVENTS, following)


def test_a_client_that_goes_away_stops_nothing(world: HeldWorld) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    state = world.state_partition()
    state.is_held = True
    asked = world.begin(world.ending(producer, True))
    asked.cancel()
    world.settle()
    assert asked.cancelled()
    state.release()
    world.settle()
    assert world.state() is State.COMPLETE_COMMIT
    assert world.end(producer, True) == (1000, 1), "what the client would have been told"


# --- new producers ---


def test_a_second_producer_fences_the_first_and_aborts_its_transaction(world: HeldWorld) -> None:
    first = world.initialize()
    write(world, EVENTS, first)
    assert refusal(world.initialize) is WAIT, "the transaction has to be aborted first"
    second = world.initialize()
    assert second == (1000, 2), "one epoch for the abort, one for the producer"
    assert world.replicas.partition(EVENTS).log.producers[1000].producer_epoch == 1
    assert refusal(lambda: world.add(first, EVENTS)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: world.end(first, True)) is ErrorCode.PRODUCER_FENCED
    write(world, EVENTS, second)
    world.end(second, True)


def test_a_fence_that_is_not_written_does_not_raise_the_epoch_twice(old_world: HeldWorld) -> None:
    producer = old_world.initialize()
    old_world.add(producer, EVENTS)
    old_world.state_partition().error = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        assert refusal(old_world.initialize) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refusal(lambda: old_world.end(producer, True)) is ErrorCode.PRODUCER_FENCED
    old_world.state_partition().error = None
    assert refusal(old_world.initialize) is WAIT
    assert old_world.initialize() == (1000, 2)


def test_transactions_of_version_1_keep_their_epoch(old_world: HeldWorld) -> None:
    producer = old_world.initialize()
    for committed in (True, False):
        old_world.add(producer, EVENTS)
        assert old_world.end(producer, committed) == producer
        old_world.end(producer, committed)
        assert refusal(lambda c=committed: old_world.end(producer, not c)) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
def test_a_time_out_out_of_bounds(world: HeldWorld, timeout_ms: int) -> None:
    asked = world.coordinator.initialize("orders", Initialization(timeout_ms=timeout_ms))
    assert refusal(lambda: world.run(asked)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_an_empty_name_is_no_name(world: HeldWorld) -> None:
    producer = ProducerIdAndEpoch(1, 0)
    assert refusal(lambda: world.initialize("")) is ErrorCode.INVALID_REQUEST
    assert refusal(lambda: world.add(producer, EVENTS, name="")) is ErrorCode.INVALID_REQUEST
    assert refusal(lambda: world.end(producer, True, name="")) is ErrorCode.INVALID_REQUEST
    assert refusal(lambda: world.coordinator.describe("")) is ErrorCode.INVALID_REQUEST


def test_a_name_that_nobody_initialized(world: HeldWorld) -> None:
    producer = ProducerIdAndEpoch(1, 0)
    assert refusal(lambda: world.add(producer, EVENTS)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: world.end(producer, True)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: world.coordinator.describe("orders")) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


# --- failed appends ---


@pytest.mark.parametrize(
    ("of_the_log", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD),
    ],
)
def test_what_cannot_be_written_did_not_happen(world: HeldWorld, of_the_log: ErrorCode, told: ErrorCode) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    world.state_partition().error = of_the_log
    assert refusal(lambda: world.end(producer, True)) is told
    world.state_partition().error = None
    assert world.coordinator.describe("orders").record.state is State.ONGOING
    assert world.end(producer, False) == (1000, 1)
    assert world.state() is State.COMPLETE_ABORT


def test_the_completion_is_tried_until_it_is_written(world: HeldWorld) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    events, state = world.replicas.partition(EVENTS), world.state_partition()
    events.is_held = True
    world.end(producer, True)
    state.error = ErrorCode.NOT_ENOUGH_REPLICAS
    events.release()
    world.pass_time(1000)
    assert world.state() is State.PREPARE_COMMIT
    state.error = None
    world.pass_time(1000)
    assert world.state() is State.COMPLETE_COMMIT


def test_markers_are_tried_until_they_are_written(world: HeldWorld) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    write(world, AUDIT, producer)
    world.replicas.partition(AUDIT).error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.end(producer, False)
    world.pass_time(1000)
    assert world.coordinator.describe("orders").record.partitions == {AUDIT}
    assert world.replicas.partition(EVENTS).offsets.log_end.message_offset == 2, "written once"
    world.replicas.partition(AUDIT).error = None
    world.pass_time(1000)
    assert world.state() is State.COMPLETE_ABORT


def test_a_deleted_topic_needs_no_marker(world: HeldWorld) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    world.replicas.delete(EVENTS)
    world.end(producer, True)
    assert world.state() is State.COMPLETE_COMMIT


def test_a_newer_coordinator_ends_what_this_one_began(world: HeldWorld) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    world.replicas.partition(EVENTS).error = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    world.end(producer, True)
    world.pass_time(10_000)
    assert world.state() is State.PREPARE_COMMIT
    assert refusal(lambda: world.add(ProducerIdAndEpoch(1000, 1), AUDIT)) is WAIT


# --- elections ---


def test_what_was_decided_before_a_crash_is_completed_after_it(world: HeldWorld) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    events = world.replicas.partition(EVENTS)
    events.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.end(producer, True)
    world.crash()
    assert world.state() is State.PREPARE_COMMIT
    events.error = None
    world.pass_time(1000)
    assert world.state() is State.COMPLETE_COMMIT
    assert last_stable(events) == 2


def test_what_was_open_before_a_crash_stays_open(world: HeldWorld) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    world.crash()
    assert world.coordinator.describe("orders").record.partitions == {EVENTS}
    assert world.end(producer, True) == (1000, 1)


def test_nothing_is_answered_while_a_partition_is_loaded(world: HeldWorld) -> None:
    wish = Initialization(timeout_ms=TIMEOUT_MS)
    producer = world.initialize()
    number = world.coordinator.partition_of("orders")
    world.coordinator.elected(number, 9)
    loading = world.loop.create_task(world.coordinator.initialize("orders", wish))
    listing = refusal(lambda: list(world.coordinator.select(_all(), set)))
    assert listing is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert refusal(lambda: world.coordinator.describe("orders")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.settle()
    assert loading.done()
    assert world.initialize()[0] == producer.producer_id


def test_a_partition_that_is_anothers(world: HeldWorld) -> None:
    producer = world.initialize()
    world.coordinator.resigned(world.coordinator.partition_of("orders"))
    assert refusal(lambda: world.end(producer, True)) is ErrorCode.NOT_COORDINATOR
    assert refusal(world.initialize) is ErrorCode.NOT_COORDINATOR
    assert not list(world.coordinator.select(_all(), set))


def test_a_partition_that_is_lost_while_its_log_is_written(world: HeldWorld) -> None:
    producer = world.initialize()
    world.add(producer, EVENTS)
    state = world.state_partition()
    state.is_held = True
    asked = world.begin(world.ending(producer, True))
    world.coordinator.resigned(world.coordinator.partition_of("orders"))
    state.release()
    world.settle()
    assert refusal(asked.result) is ErrorCode.NOT_COORDINATOR
    assert world.replicas.partition(EVENTS).offsets.log_end.message_offset == 0, "no marker: it is another's to end"


def test_a_resignation_stops_the_markers(world: HeldWorld) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    events = world.replicas.partition(EVENTS)
    events.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.end(producer, True)
    world.coordinator.resigned(world.coordinator.partition_of("orders"))
    events.error = None
    world.pass_time(1000)
    assert events.offsets.log_end.message_offset == 1
    assert world.state() is State.PREPARE_COMMIT


def test_a_bad_record_costs_one_transactional_id(world: HeldWorld) -> None:
    world.initialize()
    for key, value in ((key_of("other"), b"\x00\x07"), (b"\x00\x09?", b""), (key_of("else"), b"\x00\x01")):
        record = Record(0, START, TimestampType.CREATE, key, value)
        for number in range(STATE_PARTITIONS):
            world.replicas.partition(TopicPartition(TRANSACTION_STATE_TOPIC, number)).append(
                build_batch([record]), origin=AppendOrigin.COORDINATOR
            )
    world.crash()
    assert [listed.transactional_id for listed in world.coordinator.select(_all(), set)] == ["orders"]


# --- producer ids ---


def test_blocks_follow_one_another_and_are_asked_for_ahead(tmp_path: Path) -> None:
    world = HeldWorld(tmp_path, block_size=10)
    ids = [world.run(world.coordinator.new_producer_id()) for _ in range(9)]
    assert ids == list(range(1000, 1009))
    assert world.next_block == 1020, "nine of ten are gone"
    assert [world.run(world.coordinator.new_producer_id()) for _ in range(3)] == [1009, 1010, 1011]
    world.close()


def test_whoever_needs_an_id_waits_for_the_first_block(tmp_path: Path) -> None:
    world = HeldWorld(tmp_path)
    world.blocks_held = asyncio.Event()
    waiting = [world.begin(world.coordinator.new_producer_id()) for _ in range(3)]
    assert not any(task.done() for task in waiting)
    world.blocks_held.set()
    world.settle()
    assert [task.result() for task in waiting] == [1000, 1001, 1002]
    world.close()


# --- time ---


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(world: HeldWorld) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    world.pass_time(TIMEOUT_MS)
    assert world.state() is State.ONGOING
    world.pass_time(20_000)
    assert world.state() is State.COMPLETE_ABORT
    assert refusal(lambda: world.add(producer, EVENTS)) is ErrorCode.PRODUCER_FENCED
    assert last_stable(world.replicas.partition(EVENTS)) == 2


def test_a_time_out_that_cannot_be_written_is_tried_again(world: HeldWorld) -> None:
    producer = world.initialize()
    write(world, EVENTS, producer)
    world.state_partition().error = ErrorCode.NOT_ENOUGH_REPLICAS
    world.pass_time(TIMEOUT_MS + 20_000)
    world.state_partition().error = None
    assert world.state() is State.ONGOING
    world.pass_time(20_000)
    assert world.state() is State.COMPLETE_ABORT


def test_ids_that_nobody_uses_are_forgotten(world: HeldWorld) -> None:
    idle, used = "idle", "used"
    producer = world.initialize(idle)
    week = world.settings.id_expiration_ms
    world.pass_time(week - 3_700_000)
    world.initialize(used)
    world.add(world.initialize("open"), EVENTS, name="open")
    world.pass_time(2 * 3_700_000)
    assert world.newest(idle) is None
    assert world.state(used) is State.EMPTY
    assert world.state("open") is not None
    assert refusal(lambda: world.end(producer, True, name=idle)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.initialize(idle) != producer, "a new producer id"


def test_ids_that_cannot_be_forgotten_now_are_forgotten_later(world: HeldWorld) -> None:
    for number in range(5):
        world.initialize(f"{number}" * 5000)  # together more than a batch of names
    for number in range(STATE_PARTITIONS):
        world.replicas.partition(TopicPartition(TRANSACTION_STATE_TOPIC, number)).error = ErrorCode.NOT_ENOUGH_REPLICAS
    world.clock.sleep_ms(world.settings.id_expiration_ms + 1)
    world.settle()
    for number in range(STATE_PARTITIONS):
        world.replicas.partition(TopicPartition(TRANSACTION_STATE_TOPIC, number)).error = None
    assert len(list(world.coordinator.select(_all(), set))) == 5
    world.clock.sleep_ms(world.settings.removal_interval_ms)
    world.settle()
    assert not list(world.coordinator.select(_all(), set))
    world.crash()
    assert not list(world.coordinator.select(_all(), set))


def _all() -> TransactionFilter:
    return TransactionFilter()
