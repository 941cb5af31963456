"""Verification of transactions by coordinators on other brokers (KIP-890): requests, responses, replaced questions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.transactions.coordinator_harness import CoordinatorHarness
from server.transactions.other_brokers import Sent
from tidelog.client.model.errors import (
    AuthenticationError,
    ClientClosedError,
    DisconnectedError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch
from tidelog.server.transactions.verification import Operation, Verified
from tidelog.storage.producer import NO_GUARD

EVENTS, AUDIT = TopicPartition("events", 0), TopicPartition("audit", 3)
PRODUCER = ProducerIdAndEpoch(7, 4)
SECOND, THIRD = 2, 3
CHECKS = (Operation.CHECK, Operation.CHECK_ABORTABLE)

Asked = asyncio.Task[dict[TopicPartition, Verified]]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[CoordinatorHarness]:
    """Yield a leader of two partitions whose transactional ids belong to broker 2."""
    made = CoordinatorHarness(tmp_path)
    made.replicas.make(EVENTS)
    made.replicas.make(AUDIT)
    made.coordinator_id = SECOND
    yield made
    made.close()


def ask(
    harness: CoordinatorHarness,
    *partitions: TopicPartition,
    operation: Operation = Operation.CHECK,
    name: str = "orders",
    producer: ProducerIdAndEpoch = PRODUCER,
) -> Asked:
    return harness.begin(harness.verifying(producer, *(partitions or (EVENTS,)), operation=operation, name=name))


def answer(harness: CoordinatorHarness, sent: Sent, error: ErrorCode = ErrorCode.NONE, **of: ErrorCode) -> None:
    """Respond with one error for all partitions, or with that of the topic."""
    sent.answer(
        results_by_transaction=[
            {
                "transactional_id": transaction.transactional_id,
                "topic_results": [
                    {
                        "name": topic.name,
                        "results_by_partition": [
                            {"partition_index": number, "partition_error_code": of.get(topic.name, error)}
                            for number in topic.partitions
                        ],
                    }
                    for topic in transaction.topics
                ],
            }
            for transaction in sent.request.transactions
        ]
    )
    harness.settle()


def errors(asked: Asked) -> set[ErrorCode]:
    return {verified.error for verified in asked.result().values()}


# --- requests ---


@pytest.mark.parametrize("operation", list(Operation))
def test_the_coordinators_broker_is_asked(harness: CoordinatorHarness, operation: Operation) -> None:
    asked = ask(harness, EVENTS, AUDIT, operation=operation)
    sent = harness.brokers.take(SECOND)
    assert sent.api is ApiKey.ADD_PARTITIONS_TO_TXN
    (transaction,) = sent.request.transactions
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("orders", 7, 4)
    assert transaction.verify_only == (operation is not Operation.ADD)
    assert {topic.name: topic.partitions for topic in transaction.topics} == {"events": (0,), "audit": (3,)}
    answer(harness, sent)
    assert errors(asked) == {ErrorCode.NONE}
    assert NO_GUARD not in {verified.guard for verified in asked.result().values()}


def test_questions_share_a_request_while_another_is_in_flight(harness: CoordinatorHarness) -> None:
    first = ask(harness, name="a")
    sent = harness.brokers.take(SECOND)
    later = [ask(harness, name=name, producer=ProducerIdAndEpoch(number, 0)) for number, name in enumerate("bcd")]
    assert harness.brokers.sent == [], "one request in flight"
    answer(harness, sent)
    assert first.done()
    sent = harness.brokers.take(SECOND)
    assert [transaction.transactional_id for transaction in sent.request.transactions] == ["b", "c", "d"]
    assert not any(asked.done() for asked in later)
    answer(harness, sent)
    assert [errors(asked) for asked in later] == [{ErrorCode.NONE}] * 3


def test_coordinators_do_not_wait_for_each_other(harness: CoordinatorHarness) -> None:
    slow = ask(harness, name="a")
    harness.coordinator_id = THIRD
    quick = ask(harness, name="b")
    answer(harness, harness.brokers.take(THIRD))
    assert quick.done()
    assert not slow.done()
    answer(harness, harness.brokers.take(SECOND))
    assert slow.done()


def test_without_a_live_coordinator_nobody_is_asked(harness: CoordinatorHarness) -> None:
    harness.coordinator_id = None
    assert errors(ask(harness)) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert harness.brokers.sent == []


@pytest.mark.parametrize(
    ("epoch", "of_earlier", "of_new"),
    [
        (5, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NONE),
        (4, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NONE),
        (3, ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_new_question_of_a_producer(
    harness: CoordinatorHarness, epoch: int, of_earlier: ErrorCode, of_new: ErrorCode
) -> None:
    ask(harness, name="in flight", producer=ProducerIdAndEpoch(1, 0))
    in_flight = harness.brokers.take(SECOND)
    earlier = ask(harness)
    new = ask(harness, AUDIT, producer=ProducerIdAndEpoch(7, epoch))
    answer(harness, in_flight)
    sent = harness.brokers.take(SECOND)
    (transaction,) = sent.request.transactions
    assert transaction.producer_epoch == max(epoch, 4)
    answer(harness, sent)
    assert (errors(earlier), errors(new)) == ({of_earlier}, {of_new})


def test_a_client_that_goes_away_harms_no_other(harness: CoordinatorHarness) -> None:
    gone, other = ask(harness, name="a"), ask(harness, name="b")
    gone.cancel()
    answer(harness, harness.brokers.take(SECOND))
    answer(harness, harness.brokers.take(SECOND))
    assert errors(other) == {ErrorCode.NONE}


# --- responses ---


@pytest.mark.parametrize(
    ("code", "operation", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, Operation.CHECK, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, Operation.ADD, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, Operation.CHECK, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, Operation.CHECK_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, Operation.ADD, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Operation.CHECK, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_COORDINATOR, Operation.ADD, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, Operation.CHECK, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_the_code_of_one_partition(
    harness: CoordinatorHarness, code: ErrorCode, operation: Operation, expected: ErrorCode
) -> None:
    asked = ask(harness, EVENTS, AUDIT, operation=operation)
    answer(harness, harness.brokers.take(SECOND), audit=code)
    assert {name: verified.error for name, verified in asked.result().items()} == {
        EVENTS: ErrorCode.NONE,
        AUDIT: expected,
    }


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_error_of_the_whole_request(harness: CoordinatorHarness, code: ErrorCode, expected: ErrorCode) -> None:
    asked = ask(harness, EVENTS, AUDIT)
    harness.brokers.take(SECOND).answer(error_code=code)
    harness.settle()
    assert errors(asked) == {expected}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DisconnectedError("gone"), ErrorCode.NETWORK_EXCEPTION),
        (RequestTimedOutError("slow"), ErrorCode.NETWORK_EXCEPTION),
        (ClientClosedError("stopping"), ErrorCode.NETWORK_EXCEPTION),
        (AuthenticationError("wrong password"), ErrorCode.SASL_AUTHENTICATION_FAILED),
        (UnsupportedVersionError("too old"), ErrorCode.NONE),
    ],
)
def test_no_response(harness: CoordinatorHarness, error: Exception, expected: ErrorCode) -> None:
    asked = ask(harness)
    harness.brokers.take(SECOND).fail(error)
    harness.settle()
    assert errors(asked) == {expected}
    again = ask(harness)
    answer(harness, harness.brokers.take(SECOND))
    assert errors(again) == {ErrorCode.NONE}, "the next request is sent"


def test_a_transaction_that_the_response_lacks_is_not_verified(harness: CoordinatorHarness) -> None:
    asked = ask(harness)
    harness.brokers.take(SECOND).answer(results_by_transaction=[])
    harness.settle()
    assert errors(asked) == {ErrorCode.NETWORK_EXCEPTION}


def test_adding_waits_a_little_for_the_transaction_before(harness: CoordinatorHarness) -> None:
    asked = ask(harness, operation=Operation.ADD)
    answer(harness, harness.brokers.take(SECOND), ErrorCode.CONCURRENT_TRANSACTIONS)
    assert not asked.done()
    assert harness.brokers.sent == [], "no busy loop"
    harness.pass_time(harness.settings.add_retry_ms)
    answer(harness, harness.brokers.take(SECOND))
    assert errors(asked) == {ErrorCode.NONE}


def test_the_coordinator_is_looked_up_anew_for_each_attempt(harness: CoordinatorHarness) -> None:
    asked = ask(harness, operation=Operation.ADD)
    answer(harness, harness.brokers.take(SECOND), ErrorCode.CONCURRENT_TRANSACTIONS)
    harness.coordinator_id = THIRD
    harness.pass_time(harness.settings.add_retry_ms)
    answer(harness, harness.brokers.take(THIRD))
    assert errors(asked) == {ErrorCode.NONE}


def test_failed_partitions_and_times_are_measured(harness: CoordinatorHarness) -> None:
    def measured() -> tuple[float, float, float]:
        values = {sample.name.name: sample.values for sample in harness.coordinator.samples()}
        times = values["VerificationTimeMs"]
        return values["VerificationFailureRate"]["Count"], times["Count"], times["Max"]

    harness.coordinator_id = None
    ask(harness)
    assert measured() == (0, 0, 0), "nobody was asked"
    harness.coordinator_id = SECOND
    ask(harness, EVENTS, AUDIT)
    harness.pass_time(20)
    answer(harness, harness.brokers.take(SECOND), audit=ErrorCode.NOT_COORDINATOR)
    assert measured() == (1, 1, 20)
    ask(harness, EVENTS, AUDIT)
    harness.brokers.take(SECOND).fail(DisconnectedError("gone"))
    harness.settle()
    assert measured() == (3, 2, 20)
