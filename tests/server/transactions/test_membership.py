"""Partitions of a transaction are added and verified: the table of ``rules/membership``, and allowed state changes."""

from __future__ import annotations

from itertools import product

import pytest

from server.transactions.transaction_cases import (
    EARLIER,
    EPOCH,
    NOW,
    PARTITIONS,
    PRODUCER,
    PRODUCER_ID,
    record,
    refusal,
    transaction,
)
from tidelog.model import TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch
from tidelog.record.internal_records.transaction_record import TransactionState as State
from tidelog.server.transactions.rules.membership import add, missing
from tidelog.server.transactions.rules.transaction import PREVIOUS_STATES, Transaction

NEW = TopicPartition("events", 9)
IDLE = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
STRANGERS = {
    ProducerIdAndEpoch(PRODUCER_ID + 1, EPOCH): ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ProducerIdAndEpoch(PRODUCER_ID, EPOCH - 1): ErrorCode.PRODUCER_FENCED,
    ProducerIdAndEpoch(PRODUCER_ID, EPOCH + 1): ErrorCode.PRODUCER_FENCED,
}


def adding(asked: Transaction, *partitions: TopicPartition, producer: ProducerIdAndEpoch = PRODUCER) -> object:
    return refusal(lambda: add(asked, producer, partitions, client_version=2, now_ms=NOW))


@pytest.mark.parametrize("state", IDLE)
def test_the_first_partition_begins_a_transaction(state: State) -> None:
    assert adding(transaction(state, client_version=0), NEW) == record(
        State.ONGOING, partitions=frozenset({NEW}), start_ms=NOW, last_update_ms=NOW
    )


def test_more_partitions_join_it() -> None:
    assert adding(transaction(State.ONGOING), NEW) == record(
        State.ONGOING, partitions=PARTITIONS | {NEW}, start_ms=EARLIER, last_update_ms=NOW
    )


def test_those_that_are_in_it_need_nothing() -> None:
    assert adding(transaction(State.ONGOING), *PARTITIONS) is None


@pytest.mark.parametrize("state", PREPARED)
def test_nothing_joins_what_is_decided(state: State) -> None:
    assert adding(transaction(state), NEW) is ErrorCode.CONCURRENT_TRANSACTIONS
    answer = refusal(lambda: missing(transaction(state), PRODUCER, PARTITIONS))
    assert answer is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("producer", STRANGERS)
@pytest.mark.parametrize("state", [*IDLE, State.ONGOING, *PREPARED])
def test_nobody_else_adds_or_asks(state: State, producer: ProducerIdAndEpoch) -> None:
    assert adding(transaction(state), NEW, producer=producer) is STRANGERS[producer]
    assert refusal(lambda: missing(transaction(state), producer, [NEW])) is STRANGERS[producer]


def test_a_transition_under_way_holds_up_adding_but_not_asking() -> None:
    asked = transaction(State.ONGOING)
    asked.begin(record(State.PREPARE_COMMIT))
    stranger = ProducerIdAndEpoch(PRODUCER_ID + 1, EPOCH)
    assert adding(asked, NEW, producer=stranger) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert missing(asked, PRODUCER, [NEW, *PARTITIONS]) == {NEW}


@pytest.mark.parametrize("state", IDLE)
def test_outside_of_a_transaction_every_partition_is_missing(state: State) -> None:
    assert missing(transaction(state), PRODUCER, [NEW]) == {NEW}


@pytest.mark.parametrize(("state", "following"), list(product(State, State)))
def test_which_state_may_follow_which(state: State, following: State) -> None:
    """Rows are the following states. Columns are the present states by number, from Empty to PrepareEpochFence."""
    allowed = {
        State.EMPTY: "x...xx..",
        State.ONGOING: "xx..xx..",
        State.PREPARE_COMMIT: ".x......",
        State.PREPARE_ABORT: "xx..xx..",
        State.COMPLETE_COMMIT: "..x.....",
        State.COMPLETE_ABORT: "...x....",
        State.DEAD: "x...xx..",
        State.PREPARE_EPOCH_FENCE: ".x......",
    }[following][state]
    changing = transaction(state)
    if allowed == "x":
        changing.begin(record(following))
        assert state in PREVIOUS_STATES[following]
        changing.finish()
        assert (changing.record.state, changing.pending) == (following, None)
    else:
        with pytest.raises(RuntimeError, match="and cannot become"):
            changing.begin(record(following))
        assert changing.pending is None


def test_one_transition_at_a_time() -> None:
    changing = transaction(State.ONGOING)
    changing.begin(record(State.PREPARE_COMMIT))
    with pytest.raises(RuntimeError, match="pending transition to PrepareCommit"):
        changing.begin(record(State.PREPARE_ABORT))
    changing.discard_pending()
    with pytest.raises(RuntimeError, match="no pending transition"):
        changing.finish()
    assert changing.record == record(State.ONGOING)


def test_markers_are_counted_only_once_it_is_decided() -> None:
    one = min(PARTITIONS)
    prepared = transaction(State.PREPARE_COMMIT)
    prepared.marker_written(one)
    assert prepared.record.partitions == PARTITIONS - {one}
    with pytest.raises(RuntimeError, match="is Ongoing"):
        transaction(State.ONGOING).marker_written(one)


def test_time_runs_out_for_ongoing_transactions_alone() -> None:
    for state in State:
        late = record(state, start_ms=NOW - 60_001, timeout_ms=60_000)
        assert late.is_timed_out(NOW) == (state is State.ONGOING)
    assert not record(State.ONGOING, start_ms=NOW - 60_000, timeout_ms=60_000).is_timed_out(NOW)
    assert not record(State.ONGOING, start_ms=0, timeout_ms=2**31 - 1).is_timed_out(NOW)
