"""A coordinator with its log, its partitions and its clients: one scenario a test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from server.transactions.coordinator_harness import START, STATE_PARTITIONS, TIMEOUT_MS, CoordinatorHarness
from server.transactions.local_replicas import LocalPartition
from server.transactions.transaction_cases import refusal
from tidelog.model import Record, TimestampType, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.errors import ErrorCode
from tidelog.record.build import build_batch
from tidelog.record.internal_records.transaction_record import LAST_EPOCH, ProducerIdAndEpoch, key_of
from tidelog.record.internal_records.transaction_record import TransactionState as State
from tidelog.server.transactions.expiry import BATCH_BYTES
from tidelog.server.transactions.listing import TransactionFilter
from tidelog.server.transactions.rules.initialization import Initialization
from tidelog.storage.producer import AppendOrigin

EVENTS = TopicPartition("events", 0)
AUDIT = TopicPartition("audit", 0)
WAIT = ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[CoordinatorHarness]:
    made = CoordinatorHarness(tmp_path)
    made.replicas.make(EVENTS)
    made.replicas.make(AUDIT)
    yield made
    made.close()


@pytest.fixture
def old_world(tmp_path: Path) -> Iterator[CoordinatorHarness]:
    """Yield a harness with transactions of version 1."""
    made = CoordinatorHarness(tmp_path, server_version=1)
    made.replicas.make(EVENTS)
    yield made
    made.close()


def write(harness: CoordinatorHarness, name: TopicPartition, producer: ProducerIdAndEpoch, value: bytes = b"x") -> int:
    """Append a record as a producer of version 2: this adds the partition to the transaction."""
    verified = harness.verify(producer, name)[name]
    assert verified.error is ErrorCode.NONE, verified
    partition = harness.replicas.partition(name)
    return harness.append(partition, producer, value, sequence=0, guard=verified.guard)


def last_stable(partition: LocalPartition) -> int:
    return partition.offsets.last_stable.message_offset


# --- one transaction ---


def test_a_commit_is_decided_answered_marked_and_completed(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    assert producer == (1000, 0)
    write(harness, EVENTS, producer)
    assert harness.state() is State.ONGOING
    assert last_stable(harness.replicas.partition(EVENTS)) == 0
    assert harness.end(producer, True) == (1000, 1)
    assert harness.state() is State.COMPLETE_COMMIT
    events = harness.replicas.partition(EVENTS)
    assert (last_stable(events), events.offsets.log_end.message_offset) == (2, 2)
    assert events.log.producers[1000].producer_epoch == 1, "the marker has the new epoch"


def test_the_client_is_answered_before_the_markers_are_written(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    harness.replicas.partition(EVENTS).is_held = True
    assert harness.end(producer, True) == (1000, 1)
    assert harness.state() is State.PREPARE_COMMIT
    following = ProducerIdAndEpoch(1000, 1)
    assert refusal(lambda: harness.add(following, AUDIT)) is WAIT
    assert refusal(lambda: harness.end(producer, True)) is WAIT, "a retry"
    harness.replicas.partition(EVENTS).release()
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT
    harness.add(following, AUDIT)
    assert harness.state() is State.ONGOING


def test_a_retried_end_is_answered_with_the_producer_as_it_is_now(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    following = harness.end(producer, True)
    assert harness.end(producer, True) == following
    assert refusal(lambda: harness.end(producer, False)) is ErrorCode.INVALID_TXN_STATE


def test_offsets_of_a_group_are_completed_with_the_marker(harness: CoordinatorHarness) -> None:
    offsets = TopicPartition(GROUP_METADATA_TOPIC, 3)
    harness.replicas.make(offsets)
    for committed in (True, False):
        producer = harness.initialize()
        write(harness, offsets, producer)
        harness.end(producer, committed)
    assert harness.completed_offsets == [(3, 1000, True), (3, 1000, False)]


def test_a_group_coordinator_is_notified_before_its_partition_gets_a_marker(harness: CoordinatorHarness) -> None:
    offsets = TopicPartition(GROUP_METADATA_TOPIC, 3)
    harness.replicas.make(offsets)
    producer = harness.initialize()
    write(harness, offsets, producer)
    write(harness, EVENTS, producer)
    harness.end(producer, True)
    assert harness.announced_markers == [(3, 1)]
    assert harness.replicas.partition(offsets).offsets.log_end.message_offset == 2


def test_the_answer_waits_for_the_log(harness: CoordinatorHarness) -> None:
    state = harness.state_partition()
    state.is_held = True
    wish = Initialization(timeout_ms=TIMEOUT_MS)
    asked = harness.begin(harness.coordinator.initialize("orders", wish))
    assert not asked.done()
    assert refusal(harness.initialize) is WAIT
    state.release()
    harness.settle()
    assert asked.result() == (1000, 0)


def test_the_last_epoch_brings_a_new_producer_id_with_the_answer(harness: CoordinatorHarness) -> None:
    harness.initialize()
    harness.leave(producer_epoch=LAST_EPOCH)
    last = ProducerIdAndEpoch(1000, LAST_EPOCH)
    write(harness, EVENTS, last)
    harness.replicas.partition(EVENTS).is_held = True
    following = harness.end(last, True)
    assert following == (2000, 0)
    harness.replicas.partition(EVENTS).is_held = False
    harness.crash()  # the next coordinator still knows the promised producer id
    assert harness.state() is State.COMPLETE_COMMIT
    assert harness.end(last, True) == following
    write(harness, EVENTS, following)


def test_a_client_that_goes_away_stops_nothing(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    state = harness.state_partition()
    state.is_held = True
    asked = harness.begin(harness.ending(producer, True))
    asked.cancel()
    harness.settle()
    assert asked.cancelled()
    state.release()
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT
    assert harness.end(producer, True) == (1000, 1), "what the client would have been told"


# --- new producers ---


def test_a_second_producer_fences_the_first_and_aborts_its_transaction(harness: CoordinatorHarness) -> None:
    first = harness.initialize()
    write(harness, EVENTS, first)
    assert refusal(harness.initialize) is WAIT, "the transaction has to be aborted first"
    second = harness.initialize()
    assert second == (1000, 2), "one epoch for the abort, one for the producer"
    assert harness.replicas.partition(EVENTS).log.producers[1000].producer_epoch == 1
    assert refusal(lambda: harness.add(first, EVENTS)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: harness.end(first, True)) is ErrorCode.PRODUCER_FENCED
    write(harness, EVENTS, second)
    harness.end(second, True)


def test_a_fence_that_is_not_written_does_not_raise_the_epoch_twice(old_world: CoordinatorHarness) -> None:
    producer = old_world.initialize()
    old_world.add(producer, EVENTS)
    old_world.state_partition().error = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        assert refusal(old_world.initialize) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refusal(lambda: old_world.end(producer, True)) is ErrorCode.PRODUCER_FENCED
    old_world.state_partition().error = None
    assert refusal(old_world.initialize) is WAIT
    assert old_world.initialize() == (1000, 2)


def test_transactions_of_version_1_keep_their_epoch(old_world: CoordinatorHarness) -> None:
    producer = old_world.initialize()
    for committed in (True, False):
        old_world.add(producer, EVENTS)
        assert old_world.end(producer, committed) == producer
        old_world.end(producer, committed)
        assert refusal(partial(old_world.end, producer, not committed)) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
def test_a_time_out_out_of_bounds(harness: CoordinatorHarness, timeout_ms: int) -> None:
    asked = harness.coordinator.initialize("orders", Initialization(timeout_ms=timeout_ms))
    assert refusal(lambda: harness.run(asked)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_the_smallest_and_the_largest_timeout(harness: CoordinatorHarness, timeout_ms: int) -> None:
    asked = harness.coordinator.initialize("orders", Initialization(timeout_ms=timeout_ms))
    assert harness.run(asked).producer_epoch == 0


def test_an_empty_name_is_no_name(harness: CoordinatorHarness) -> None:
    producer = ProducerIdAndEpoch(1, 0)
    assert refusal(lambda: harness.initialize("")) is ErrorCode.INVALID_REQUEST
    assert refusal(lambda: harness.add(producer, EVENTS, name="")) is ErrorCode.INVALID_REQUEST
    assert refusal(lambda: harness.end(producer, True, name="")) is ErrorCode.INVALID_REQUEST
    assert refusal(lambda: harness.coordinator.describe("")) is ErrorCode.INVALID_REQUEST


def test_a_name_that_nobody_initialized(harness: CoordinatorHarness) -> None:
    producer = ProducerIdAndEpoch(1, 0)
    assert refusal(lambda: harness.add(producer, EVENTS)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: harness.end(producer, True)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(lambda: harness.coordinator.describe("orders")) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


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
def test_what_cannot_be_written_did_not_happen(
    harness: CoordinatorHarness, of_the_log: ErrorCode, told: ErrorCode
) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    harness.state_partition().error = of_the_log
    assert refusal(lambda: harness.end(producer, True)) is told
    harness.state_partition().error = None
    assert harness.coordinator.describe("orders").record.state is State.ONGOING
    assert harness.end(producer, False) == (1000, 1)
    assert harness.state() is State.COMPLETE_ABORT


def test_the_completion_is_tried_until_it_is_written(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    events, state = harness.replicas.partition(EVENTS), harness.state_partition()
    events.is_held = True
    harness.end(producer, True)
    state.error = ErrorCode.NOT_ENOUGH_REPLICAS
    events.release()
    harness.pass_time(1000)
    assert harness.state() is State.PREPARE_COMMIT
    state.error = None
    harness.pass_time(1000)
    assert harness.state() is State.COMPLETE_COMMIT


def test_markers_are_tried_until_they_are_written(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    write(harness, AUDIT, producer)
    harness.replicas.partition(AUDIT).error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    harness.end(producer, False)
    harness.pass_time(1000)
    assert harness.coordinator.describe("orders").record.partitions == {AUDIT}
    assert harness.replicas.partition(EVENTS).offsets.log_end.message_offset == 2, "written once"
    harness.replicas.partition(AUDIT).error = None
    harness.pass_time(1000)
    assert harness.state() is State.COMPLETE_ABORT


def test_a_deleted_topic_needs_no_marker(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    harness.replicas.delete(EVENTS)
    harness.end(producer, True)
    assert harness.state() is State.COMPLETE_COMMIT


def test_a_newer_coordinator_ends_what_this_one_began(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    harness.replicas.partition(EVENTS).error = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    harness.end(producer, True)
    harness.pass_time(10_000)
    assert harness.state() is State.PREPARE_COMMIT
    assert refusal(lambda: harness.add(ProducerIdAndEpoch(1000, 1), AUDIT)) is WAIT


# --- elections ---


def test_what_was_decided_before_a_crash_is_completed_after_it(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    events = harness.replicas.partition(EVENTS)
    events.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    harness.end(producer, True)
    harness.crash()
    assert harness.state() is State.PREPARE_COMMIT
    events.error = None
    harness.pass_time(1000)
    assert harness.state() is State.COMPLETE_COMMIT
    assert last_stable(events) == 2


def test_what_was_open_before_a_crash_stays_open(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    harness.crash()
    assert harness.coordinator.describe("orders").record.partitions == {EVENTS}
    assert harness.end(producer, True) == (1000, 1)


def test_nothing_is_answered_while_a_partition_is_loaded(harness: CoordinatorHarness) -> None:
    wish = Initialization(timeout_ms=TIMEOUT_MS)
    producer = harness.initialize()
    number = harness.coordinator.partition_of("orders")
    harness.coordinator.elected(number, 9)
    loading = harness.loop.create_task(harness.coordinator.initialize("orders", wish))
    listing = refusal(lambda: list(harness.coordinator.select(_all(), set)))
    assert listing is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert refusal(lambda: harness.coordinator.describe("orders")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    harness.settle()
    assert loading.done()
    assert harness.initialize()[0] == producer.producer_id


def test_a_partition_that_is_anothers(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    harness.coordinator.resigned(harness.coordinator.partition_of("orders"))
    assert refusal(lambda: harness.end(producer, True)) is ErrorCode.NOT_COORDINATOR
    assert refusal(harness.initialize) is ErrorCode.NOT_COORDINATOR
    assert not list(harness.coordinator.select(_all(), set))


def test_a_partition_that_is_lost_while_its_log_is_written(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    harness.add(producer, EVENTS)
    state = harness.state_partition()
    state.is_held = True
    asked = harness.begin(harness.ending(producer, True))
    harness.coordinator.resigned(harness.coordinator.partition_of("orders"))
    state.release()
    harness.settle()
    assert refusal(asked.result) is ErrorCode.NOT_COORDINATOR
    assert harness.replicas.partition(EVENTS).offsets.log_end.message_offset == 0, "no marker: it is another's to end"


def test_a_resignation_stops_the_markers(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    events = harness.replicas.partition(EVENTS)
    events.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    harness.end(producer, True)
    harness.coordinator.resigned(harness.coordinator.partition_of("orders"))
    events.error = None
    harness.pass_time(1000)
    assert events.offsets.log_end.message_offset == 1
    assert harness.state() is State.PREPARE_COMMIT


def test_a_stopped_coordinator_describes_nothing(harness: CoordinatorHarness) -> None:
    harness.initialize()
    harness.coordinator.stop()
    assert refusal(lambda: harness.coordinator.describe("orders")) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refusal(lambda: list(harness.coordinator.select(_all(), set))) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_bad_record_costs_one_transactional_id(harness: CoordinatorHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness.initialize()
    for key, value in ((key_of("other"), b"\x00\x07"), (b"\x00\x09?", b""), (key_of("else"), b"\x00\x01")):
        record = Record(0, START, TimestampType.CREATE, key, value)
        for number in range(STATE_PARTITIONS):
            harness.replicas.partition(TopicPartition(TRANSACTION_STATE_TOPIC, number)).append(
                build_batch([record]), origin=AppendOrigin.COORDINATOR
            )
    harness.crash()
    assert [listed.transactional_id for listed in harness.coordinator.select(_all(), set)] == ["orders"]
    assert caplog.text.count("has an unknown type") == STATE_PARTITIONS


# --- producer ids ---


def test_blocks_follow_one_another_and_are_asked_for_ahead(tmp_path: Path) -> None:
    harness = CoordinatorHarness(tmp_path, block_size=10)
    ids = [harness.run(harness.coordinator.new_producer_id()) for _ in range(9)]
    assert ids == list(range(1000, 1009))
    assert harness.next_block == 1020, "nine of ten are gone"
    assert [harness.run(harness.coordinator.new_producer_id()) for _ in range(3)] == [1009, 1010, 1011]
    harness.close()


def test_whoever_needs_an_id_waits_for_the_first_block(tmp_path: Path) -> None:
    harness = CoordinatorHarness(tmp_path)
    harness.blocks_held = asyncio.Event()
    waiting = [harness.begin(harness.coordinator.new_producer_id()) for _ in range(3)]
    assert not any(task.done() for task in waiting)
    harness.blocks_held.set()
    harness.settle()
    assert [task.result() for task in waiting] == [1000, 1001, 1002]
    harness.close()


# --- time ---


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    harness.pass_time(TIMEOUT_MS)
    assert harness.state() is State.ONGOING
    harness.pass_time(20_000)
    assert harness.state() is State.COMPLETE_ABORT
    assert refusal(lambda: harness.add(producer, EVENTS)) is ErrorCode.PRODUCER_FENCED
    assert last_stable(harness.replicas.partition(EVENTS)) == 2


def test_a_timeout_at_the_last_epoch_waits_for_a_producer_id(harness: CoordinatorHarness) -> None:
    """The first search finds a coordinator that has no block of producer ids yet."""
    write(harness, EVENTS, harness.initialize())
    harness.leave(producer_epoch=LAST_EPOCH)
    harness.clock.sleep_ms(TIMEOUT_MS)
    harness.crash()
    harness.clock.sleep_ms(harness.settings.abort_interval_ms)
    harness.settle()
    assert harness.state() is State.COMPLETE_ABORT
    completed = harness.newest()
    assert completed is not None
    assert completed.producer == (2000, 0)


def test_a_time_out_that_cannot_be_written_is_tried_again(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    write(harness, EVENTS, producer)
    harness.state_partition().error = ErrorCode.NOT_ENOUGH_REPLICAS
    harness.pass_time(TIMEOUT_MS + 20_000)
    harness.state_partition().error = None
    assert harness.state() is State.ONGOING
    harness.pass_time(20_000)
    assert harness.state() is State.COMPLETE_ABORT


def test_ids_that_nobody_uses_are_forgotten(harness: CoordinatorHarness) -> None:
    idle, used = "idle", "used"
    producer = harness.initialize(idle)
    week = harness.settings.id_expiration_ms
    harness.pass_time(week - 3_700_000)
    harness.initialize(used)
    harness.add(harness.initialize("open"), EVENTS, name="open")
    harness.pass_time(2 * 3_700_000)
    assert harness.newest(idle) is None
    assert harness.state(used) is State.EMPTY
    assert harness.state("open") is not None
    assert refusal(lambda: harness.end(producer, True, name=idle)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert harness.initialize(idle) != producer, "a new producer id"


def test_ids_that_cannot_be_forgotten_now_are_forgotten_later(harness: CoordinatorHarness) -> None:
    for number in range(5):
        harness.initialize(f"{number}" * 5000)  # together more than a batch of names
    for number in range(STATE_PARTITIONS):
        harness.replicas.partition(
            TopicPartition(TRANSACTION_STATE_TOPIC, number)
        ).error = ErrorCode.NOT_ENOUGH_REPLICAS
    harness.clock.sleep_ms(harness.settings.id_expiration_ms + 1)
    harness.settle()
    for number in range(STATE_PARTITIONS):
        harness.replicas.partition(TopicPartition(TRANSACTION_STATE_TOPIC, number)).error = None
    assert len(list(harness.coordinator.select(_all(), set))) == 5
    harness.clock.sleep_ms(harness.settings.removal_interval_ms)
    harness.settle()
    assert not list(harness.coordinator.select(_all(), set))
    harness.crash()
    assert not list(harness.coordinator.select(_all(), set))


@pytest.mark.parametrize(("length", "appends"), [(BATCH_BYTES // 2, 1), (BATCH_BYTES // 2 + 1, 2)])
def test_as_many_ids_as_fit_are_removed_together(harness: CoordinatorHarness, length: int, appends: int) -> None:
    """Each partition has two idle ids: a batch has at most the maximum size, in bytes of UTF-8."""
    names = [str(number) + "é" * (length // 2 - 1) + "y" * (length % 2 + 1) for number in range(4)]
    for name in names:
        harness.initialize(name)
    before = {number: _batch_count(harness, number) for number in range(STATE_PARTITIONS)}
    harness.clock.sleep_ms(harness.settings.id_expiration_ms + harness.settings.removal_interval_ms)
    harness.settle()
    assert not any(harness.newest(name) for name in names)
    assert [_batch_count(harness, number) - before[number] for number in before] == [appends, appends]


def _batch_count(harness: CoordinatorHarness, number: int) -> int:
    log = harness.replicas.partition(TopicPartition(TRANSACTION_STATE_TOPIC, number)).log
    return sum(len(table) for _, table in log.read_through(0, log.end_offset, 1 << 20))


def _all() -> TransactionFilter:
    return TransactionFilter()
