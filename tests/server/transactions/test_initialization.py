"""InitProducerId: the table of ``rules/initialization`` with all its rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from server.transactions.transaction_cases import (
    EPOCH,
    FIRST_NEW_ID,
    NOW,
    PRODUCER,
    PRODUCER_ID,
    new_ids,
    record,
    refusal,
    transaction,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.record.internal_records.transaction_record import LAST_EPOCH, ProducerIdAndEpoch, TransactionRecord
from tidelog.record.internal_records.transaction_record import TransactionState as State
from tidelog.server.transactions.rules.initialization import Initialization, initialize
from tidelog.server.transactions.rules.transaction import Transaction
from tidelog.server.transactions.rules.transitions import first_record

IDLE = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
TIMEOUT_MS = 30_000
WAIT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
OLD_ID = 3
"""The producer id before a rotation."""


def ask(asked: Transaction, named: ProducerIdAndEpoch | None = None) -> TransactionRecord | ErrorCode | None:
    wish = Initialization(timeout_ms=TIMEOUT_MS, named=named)
    answer = refusal(lambda: initialize(asked, wish, now_ms=NOW, new_producer_id=new_ids()))
    assert answer is None or isinstance(answer, TransactionRecord | ErrorCode)
    return answer


def empty(**changes: object) -> TransactionRecord:
    return record(State.EMPTY, last_update_ms=NOW, timeout_ms=TIMEOUT_MS, **changes)


@pytest.mark.parametrize("state", IDLE)
def test_the_next_epoch_fences_whoever_was_before(state: State) -> None:
    assert ask(transaction(state)) == empty(producer_epoch=EPOCH + 1, last_producer_epoch=-1)


@pytest.mark.parametrize("state", IDLE)
def test_a_producer_that_goes_on_is_remembered(state: State) -> None:
    assert ask(transaction(state), PRODUCER) == empty(producer_epoch=EPOCH + 1, last_producer_epoch=EPOCH)


@pytest.mark.parametrize("state", IDLE)
def test_asking_again_gives_the_same_epoch(state: State) -> None:
    before = ProducerIdAndEpoch(PRODUCER_ID, EPOCH - 1)
    assert ask(transaction(state), before) == empty(producer_epoch=EPOCH, last_producer_epoch=EPOCH - 1)


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize("epoch", [EPOCH - 2, EPOCH + 1])
def test_any_other_epoch_is_fenced(state: State, epoch: int) -> None:
    assert ask(transaction(state), ProducerIdAndEpoch(PRODUCER_ID, epoch)) is FENCED


@pytest.mark.parametrize("state", [*IDLE, State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_another_producer_id_is_fenced_in_every_state(state: State) -> None:
    assert ask(transaction(state), ProducerIdAndEpoch(PRODUCER_ID + 1, EPOCH)) is FENCED


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
@pytest.mark.parametrize("named", [None, PRODUCER])
def test_what_is_decided_has_to_be_completed_first(state: State, named: ProducerIdAndEpoch | None) -> None:
    assert ask(transaction(state), named) is WAIT


@pytest.mark.parametrize("named", [None, PRODUCER, ProducerIdAndEpoch(PRODUCER_ID, EPOCH - 3)])
def test_what_is_ongoing_has_to_be_aborted_first(named: ProducerIdAndEpoch | None) -> None:
    assert ask(transaction(State.ONGOING), named) is None


def test_a_transition_under_way_has_to_end_first() -> None:
    asked = transaction(State.EMPTY)
    asked.begin(record(State.EMPTY))
    assert ask(asked, ProducerIdAndEpoch(PRODUCER_ID + 1, EPOCH)) is WAIT


@pytest.mark.parametrize("named", [None, ProducerIdAndEpoch(99, 42)])
def test_a_new_transactional_id_begins_at_epoch_0_whoever_the_client_believes_to_be(
    named: ProducerIdAndEpoch | None,
) -> None:
    new = Transaction(transactional_id="orders", record=first_record(PRODUCER_ID, timeout_ms=1, now_ms=NOW - 1))
    answer = ask(new, named)
    assert isinstance(answer, TransactionRecord)
    assert (answer.producer, answer.timeout_ms, answer.last_producer_epoch) == ((PRODUCER_ID, 0), TIMEOUT_MS, -1)


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize("remember", [False, True])
def test_used_up_epochs_bring_a_new_producer_id(state: State, remember: bool) -> None:
    used_up = transaction(state, producer_epoch=LAST_EPOCH)
    named = ProducerIdAndEpoch(PRODUCER_ID, LAST_EPOCH) if remember else None
    assert ask(used_up, named) == empty(
        producer_id=FIRST_NEW_ID,
        producer_epoch=0,
        last_producer_epoch=LAST_EPOCH if remember else -1,
        previous_producer_id=PRODUCER_ID,
    )


def test_a_rotation_is_recognized_when_it_is_asked_for_again() -> None:
    rotated = transaction(State.EMPTY, producer_epoch=0, last_producer_epoch=LAST_EPOCH, previous_producer_id=OLD_ID)
    again = ask(rotated, ProducerIdAndEpoch(OLD_ID, LAST_EPOCH))
    assert isinstance(again, TransactionRecord)
    assert again.producer == (PRODUCER_ID, 0)
    assert ask(rotated, ProducerIdAndEpoch(OLD_ID, LAST_EPOCH - 1)) is FENCED


def test_the_last_epoch_itself_may_be_asked_for_again() -> None:
    last = transaction(State.EMPTY, producer_epoch=LAST_EPOCH, last_producer_epoch=LAST_EPOCH - 1)
    again = ask(last, ProducerIdAndEpoch(PRODUCER_ID, LAST_EPOCH - 1))
    assert isinstance(again, TransactionRecord)
    assert again.producer == (PRODUCER_ID, LAST_EPOCH)
    assert ask(last, ProducerIdAndEpoch(PRODUCER_ID, LAST_EPOCH - 2)) is FENCED


def test_what_a_producer_left_behind_is_gone() -> None:
    answer = ask(transaction(State.COMPLETE_COMMIT))
    assert isinstance(answer, TransactionRecord)
    assert answer == replace(answer, start_ms=-1, partitions=frozenset())
