"""Markers of a coordinator for leaders on other brokers: queues, requests, responses, and moves of both sides."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from server.transactions.coordinator_harness import STATE_PARTITIONS, CoordinatorHarness
from server.transactions.other_brokers import Sent
from tidelog.client.model.errors import DisconnectedError, UnsupportedVersionError
from tidelog.model import TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch
from tidelog.record.internal_records.transaction_record import TransactionState as State
from tidelog.server.metadata.partition_state import NO_LEADER
from tidelog.server.topics.internal_topics import partition_of
from tidelog.server.transactions import marker_channels
from tidelog.server.transactions.completions import RETRY_MS

HERE = TopicPartition("here", 0)
FAR, FARTHER = TopicPartition("far", 0), TopicPartition("farther", 1)
SECOND, THIRD = 2, 3


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[CoordinatorHarness]:
    """Yield a coordinator on broker 1. Broker 2 leads far-0, and broker 3 leads farther-1."""
    made = CoordinatorHarness(tmp_path)
    made.replicas.make(HERE)
    made.replicas.elsewhere = {FAR: SECOND, FARTHER: THIRD}
    yield made
    made.close()


def prepare(
    harness: CoordinatorHarness, *partitions: TopicPartition, name: str = "orders", committed: bool = True
) -> ProducerIdAndEpoch:
    """End a transaction in these partitions, and return the producer of the markers."""
    producer = harness.initialize(name)
    harness.add(producer, *partitions, name=name)
    return harness.end(producer, committed, name=name)


def answer(sent: Sent, error: ErrorCode = ErrorCode.NONE, **of: ErrorCode) -> None:
    """Respond with one error for all partitions, or with that of the topic."""
    sent.answer(
        markers=[
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {"partition_index": number, "error_code": of.get(topic.name, error)}
                            for number in topic.partition_indexes
                        ],
                    }
                    for topic in marker.topics
                ],
            }
            for marker in sent.request.markers
        ]
    )


def partitions_of(sent: Sent) -> list[Mapping[str, tuple[int, ...]]]:
    """Return each marker's partitions by topic."""
    return [{topic.name: topic.partition_indexes for topic in marker.topics} for marker in sent.request.markers]


# --- requests ---


def test_a_marker_goes_to_each_leader_and_the_last_response_completes(harness: CoordinatorHarness) -> None:
    producer = prepare(harness, HERE, FAR, FARTHER)
    assert harness.replicas.partition(HERE).offsets.log_end.message_offset == 1, "the own marker does not wait"
    second, third = harness.brokers.take(SECOND), harness.brokers.take(THIRD)
    (marker,) = second.request.markers
    assert (marker.producer_id, marker.producer_epoch) == producer
    assert (marker.transaction_result, marker.coordinator_epoch, marker.transaction_version) == (True, 1, 2)
    assert (partitions_of(second), partitions_of(third)) == ([{"far": (0,)}], [{"farther": (1,)}])
    answer(second)
    harness.settle()
    assert harness.state() is State.PREPARE_COMMIT
    answer(third)
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT
    assert harness.brokers.sent == []


def test_an_abort_says_so(harness: CoordinatorHarness) -> None:
    prepare(harness, FAR, committed=False)
    sent = harness.brokers.take(SECOND)
    assert sent.request.markers[0].transaction_result is False
    answer(sent)
    harness.settle()
    assert harness.state() is State.COMPLETE_ABORT


def test_markers_gather_while_a_request_is_in_flight(harness: CoordinatorHarness) -> None:
    prepare(harness, FAR, name="a")
    first = harness.brokers.take(SECOND)
    for name in "bcd":
        prepare(harness, FAR, name=name)
    assert harness.brokers.sent == [], "one request in flight"
    answer(first)
    harness.settle()
    assert harness.state("a") is State.COMPLETE_COMMIT
    second = harness.brokers.take(SECOND)
    assert partitions_of(second) == [{"far": (0,)}] * 3
    assert len({marker.producer_id for marker in second.request.markers}) == 3
    answer(second)
    harness.settle()
    assert {harness.state(name) for name in "abcd"} == {State.COMPLETE_COMMIT}


def test_a_request_has_a_largest_size(harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_channels, "MAX_PARTITIONS", 3)
    many = [TopicPartition("far", number) for number in range(5)]
    harness.replicas.elsewhere |= dict.fromkeys(many, SECOND)
    prepare(harness, FAR, name="a")
    first = harness.brokers.take(SECOND)
    prepare(harness, *many[:2], name="b")
    prepare(harness, *many[:2], name="c")
    prepare(harness, *many, name="d")
    sizes = []
    for sent in (first, None, None, None):
        answer(sent := sent or harness.brokers.take(SECOND))
        sizes.append([len(found["far"]) for found in partitions_of(sent)])
        harness.settle()
    assert sizes == [[1], [2], [2], [5]], "a transaction is never split, and a large one goes alone"
    assert {harness.state(name) for name in "abcd"} == {State.COMPLETE_COMMIT}


def test_a_slow_broker_delays_only_its_own_partitions(harness: CoordinatorHarness) -> None:
    prepare(harness, FAR, FARTHER)
    slow, quick = harness.brokers.take(SECOND), harness.brokers.take(THIRD)
    answer(quick, ErrorCode.NOT_ENOUGH_REPLICAS)
    harness.pass_time(RETRY_MS)
    answer(harness.brokers.take(THIRD))
    harness.settle()
    answer(slow)
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT


# --- responses ---


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_only_the_failed_partition_is_retried_after_a_pause(harness: CoordinatorHarness, error: ErrorCode) -> None:
    other = TopicPartition("other", 7)
    harness.replicas.elsewhere[other] = SECOND
    prepare(harness, FAR, other)
    answer(harness.brokers.take(SECOND), far=error)
    harness.pass_time(RETRY_MS - 10)
    assert harness.brokers.sent == [], "no busy loop"
    harness.pass_time(10)
    again = harness.brokers.take(SECOND)
    assert partitions_of(again) == [{"far": (0,)}]
    answer(again)
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ],
)
def test_an_unexpected_error_is_reported_once_and_retried(
    harness: CoordinatorHarness, error: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(harness, FAR)
    for _ in range(3):
        answer(harness.brokers.take(SECOND), error)
        harness.pass_time(RETRY_MS)
    found = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [error.name in record.getMessage() for record in found] == [True]
    answer(harness.brokers.take(SECOND))
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT


@pytest.mark.parametrize("error", [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION])
def test_a_partition_that_cannot_have_data_of_it_is_finished(harness: CoordinatorHarness, error: ErrorCode) -> None:
    prepare(harness, FAR)
    answer(harness.brokers.take(SECOND), error)
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_fenced_transaction_is_abandoned(harness: CoordinatorHarness, error: ErrorCode) -> None:
    prepare(harness, FAR, FARTHER)
    answer(harness.brokers.take(SECOND), error)
    harness.settle()
    answer(harness.brokers.take(THIRD), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    harness.pass_time(3 * RETRY_MS)
    assert harness.brokers.sent == []
    assert harness.state() is State.PREPARE_COMMIT, "the newer owner completes it"


@pytest.mark.parametrize("error", [DisconnectedError("gone"), UnsupportedVersionError("too old")])
def test_a_request_without_a_response_is_repeated_to_the_leaders_of_that_time(
    harness: CoordinatorHarness, error: Exception
) -> None:
    prepare(harness, FAR, FARTHER)
    answer(harness.brokers.take(THIRD))
    harness.brokers.take(SECOND).fail(error)
    harness.settle()
    harness.replicas.elsewhere[FAR] = THIRD
    harness.pass_time(RETRY_MS)
    again = harness.brokers.take(THIRD)
    assert partitions_of(again) == [{"far": (0,)}], "an old broker's partition is not left out either"
    answer(again)
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT


def test_a_response_that_lacks_the_partition_is_no_success(harness: CoordinatorHarness) -> None:
    prepare(harness, FAR)
    harness.brokers.take(SECOND).answer(markers=[])
    harness.pass_time(RETRY_MS)
    assert harness.state() is State.PREPARE_COMMIT
    answer(harness.brokers.take(SECOND))
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT


# --- leaders that move, and partitions that go ---


def test_partitions_that_part_go_to_their_new_leaders(harness: CoordinatorHarness) -> None:
    other = TopicPartition("other", 7)
    harness.replicas.elsewhere[other] = SECOND
    prepare(harness, FAR, other, HERE)
    answer(harness.brokers.take(SECOND), ErrorCode.NOT_LEADER_OR_FOLLOWER)
    harness.replicas.elsewhere[other] = THIRD
    harness.replicas.make(FAR)
    del harness.replicas.elsewhere[FAR]
    harness.pass_time(RETRY_MS)
    assert harness.replicas.partition(FAR).offsets.log_end.message_offset == 1, "this broker leads it now"
    answer(harness.brokers.take(THIRD))
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT


def test_a_marker_waits_for_a_leader(harness: CoordinatorHarness) -> None:
    harness.replicas.elsewhere[FAR] = NO_LEADER
    prepare(harness, FAR, FARTHER)
    answer(harness.brokers.take(THIRD))
    harness.pass_time(5 * RETRY_MS)
    assert harness.completions.waiting_for_leaders == 1
    assert harness.state() is State.PREPARE_COMMIT
    harness.replicas.elsewhere[FAR] = SECOND
    harness.pass_time(RETRY_MS)
    answer(harness.brokers.take(SECOND))
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT
    assert harness.completions.waiting_for_leaders == 0


def test_a_deleted_partition_needs_no_marker(harness: CoordinatorHarness) -> None:
    prepare(harness, FAR)
    sent = harness.brokers.take(SECOND)
    del harness.replicas.elsewhere[FAR]
    answer(sent, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT


def test_a_topic_that_is_deleted_before_the_first_request(harness: CoordinatorHarness) -> None:
    producer = harness.initialize()
    harness.add(producer, FAR)
    del harness.replicas.elsewhere[FAR]
    harness.end(producer, True)
    assert harness.brokers.sent == []
    assert harness.state() is State.COMPLETE_COMMIT


# --- a coordinator that moves ---


def test_queued_markers_are_dropped_when_the_coordinator_moves_away(harness: CoordinatorHarness) -> None:
    names = [next(name for name in "abcdefgh" if partition_of(name, STATE_PARTITIONS) == number) for number in (0, 1)]
    prepare(harness, FAR, name="in flight")
    in_flight = harness.brokers.take(SECOND)
    for name in names:
        prepare(harness, FAR, name=name)
    assert harness.channels.queued(SECOND) == 2
    harness.coordinator.resigned(0)
    harness.settle()
    assert harness.channels.queued(SECOND) == 1
    answer(in_flight)
    harness.settle()
    (marker,) = harness.brokers.take(SECOND).request.markers
    record = harness.newest(names[1])
    assert record is not None
    assert marker.producer_id == record.producer_id


def test_a_response_after_the_move_changes_nothing(harness: CoordinatorHarness) -> None:
    prepare(harness, FAR)
    sent = harness.brokers.take(SECOND)
    harness.coordinator.resigned(partition_of("orders", STATE_PARTITIONS))
    answer(sent)
    harness.settle()
    assert harness.state() is State.PREPARE_COMMIT


def test_a_new_election_sends_them_again_in_its_epoch(harness: CoordinatorHarness) -> None:
    prepare(harness, FAR)
    old = harness.brokers.take(SECOND)
    harness.coordinator.elected(partition_of("orders", STATE_PARTITIONS), 9)
    harness.settle()
    answer(old, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    harness.pass_time(RETRY_MS)
    again = harness.brokers.take(SECOND)
    assert [marker.coordinator_epoch for marker in again.request.markers] == [9]
    answer(again)
    harness.settle()
    assert harness.state() is State.COMPLETE_COMMIT
    assert harness.brokers.sent == []


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_the_final_record_is_repeated_until_it_is_written(harness: CoordinatorHarness, error: ErrorCode) -> None:
    prepare(harness, FAR)
    harness.state_partition().error = error
    answer(harness.brokers.take(SECOND))
    harness.pass_time(3 * RETRY_MS)
    assert harness.completions.waiting_completions == 1
    harness.state_partition().error = None
    harness.pass_time(RETRY_MS)
    assert harness.state() is State.COMPLETE_COMMIT
    assert harness.brokers.sent == [], "the markers are not written again"
