"""EndTxn and fencing: both tables of ``rules/ending`` with all their rows, and the records of the decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from server.transactions.transaction_cases import (
    EARLIER,
    EPOCH,
    FIRST_NEW_ID,
    NOW,
    PARTITIONS,
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
from tidelog.server.transactions.rules.ending import Ending, end, fence
from tidelog.server.transactions.rules.transaction import Transaction
from tidelog.server.transactions.rules.transitions import complete

DONE = None
WAIT = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
FENCED = ErrorCode.PRODUCER_FENCED
STATES = (
    State.EMPTY,
    State.ONGOING,
    State.PREPARE_COMMIT,
    State.PREPARE_ABORT,
    State.COMPLETE_COMMIT,
    State.COMPLETE_ABORT,
)

VERSION_1 = {
    (State.EMPTY, True): INVALID,
    (State.EMPTY, False): INVALID,
    (State.ONGOING, True): State.PREPARE_COMMIT,
    (State.ONGOING, False): State.PREPARE_ABORT,
    (State.PREPARE_COMMIT, True): WAIT,
    (State.PREPARE_COMMIT, False): INVALID,
    (State.PREPARE_ABORT, True): INVALID,
    (State.PREPARE_ABORT, False): WAIT,
    (State.COMPLETE_COMMIT, True): DONE,
    (State.COMPLETE_COMMIT, False): INVALID,
    (State.COMPLETE_ABORT, True): INVALID,
    (State.COMPLETE_ABORT, False): DONE,
}

CURRENT, BEFORE = EPOCH, EPOCH - 1
VERSION_2 = {
    (State.EMPTY, True, CURRENT): INVALID,
    (State.EMPTY, True, BEFORE): FENCED,
    (State.EMPTY, False, CURRENT): State.PREPARE_ABORT,
    (State.EMPTY, False, BEFORE): FENCED,
    (State.ONGOING, True, CURRENT): State.PREPARE_COMMIT,
    (State.ONGOING, True, BEFORE): FENCED,
    (State.ONGOING, False, CURRENT): State.PREPARE_ABORT,
    (State.ONGOING, False, BEFORE): FENCED,
    (State.PREPARE_COMMIT, True, CURRENT): FENCED,
    (State.PREPARE_COMMIT, True, BEFORE): WAIT,
    (State.PREPARE_COMMIT, False, CURRENT): FENCED,
    (State.PREPARE_COMMIT, False, BEFORE): INVALID,
    (State.PREPARE_ABORT, True, CURRENT): FENCED,
    (State.PREPARE_ABORT, True, BEFORE): INVALID,
    (State.PREPARE_ABORT, False, CURRENT): FENCED,
    (State.PREPARE_ABORT, False, BEFORE): WAIT,
    (State.COMPLETE_COMMIT, True, CURRENT): INVALID,
    (State.COMPLETE_COMMIT, True, BEFORE): DONE,
    (State.COMPLETE_COMMIT, False, CURRENT): State.PREPARE_ABORT,
    (State.COMPLETE_COMMIT, False, BEFORE): INVALID,
    (State.COMPLETE_ABORT, True, CURRENT): INVALID,
    (State.COMPLETE_ABORT, True, BEFORE): INVALID,
    (State.COMPLETE_ABORT, False, CURRENT): State.PREPARE_ABORT,
    (State.COMPLETE_ABORT, False, BEFORE): DONE,
}


def ask(
    asked: Transaction, committed: bool, producer: ProducerIdAndEpoch = PRODUCER, version: int = 2
) -> TransactionRecord | ErrorCode | None:
    wish = Ending(producer=producer, committed=committed, client_version=version)
    answer = refusal(lambda: end(asked, wish, now_ms=NOW, new_producer_id=new_ids()))
    assert answer is None or isinstance(answer, TransactionRecord | ErrorCode)
    return answer


def state_of(answer: TransactionRecord | ErrorCode | None) -> State | ErrorCode | None:
    return answer.state if isinstance(answer, TransactionRecord) else answer


def decision(asked: Transaction, committed: bool, producer: ProducerIdAndEpoch = PRODUCER) -> TransactionRecord:
    answer = ask(asked, committed, producer)
    assert isinstance(answer, TransactionRecord), answer
    return answer


def test_the_tables_have_a_row_for_every_state() -> None:
    assert {row[0] for row in VERSION_1} == set(STATES) == {row[0] for row in VERSION_2}
    assert (len(VERSION_1), len(VERSION_2)) == (12, 24)


@pytest.mark.parametrize(("state", "committed"), VERSION_1)
def test_version_1(state: State, committed: bool) -> None:
    for version in (0, 1):
        assert state_of(ask(transaction(state), committed, version=version)) == VERSION_1[state, committed]


@pytest.mark.parametrize(("state", "committed", "epoch"), VERSION_2)
def test_version_2(state: State, committed: bool, epoch: int) -> None:
    producer = ProducerIdAndEpoch(PRODUCER_ID, epoch)
    assert state_of(ask(transaction(state), committed, producer)) == VERSION_2[state, committed, epoch]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("version", [0, 2])
def test_another_producer_id_is_no_mapping(state: State, version: int) -> None:
    stranger = ProducerIdAndEpoch(PRODUCER_ID + 1, EPOCH)
    assert ask(transaction(state), True, stranger, version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("epoch", [EPOCH - 2, EPOCH + 1, EPOCH + 2])
@pytest.mark.parametrize("version", [0, 2])
def test_an_epoch_that_is_neither_the_current_nor_the_one_before_is_fenced(
    state: State, epoch: int, version: int
) -> None:
    assert ask(transaction(state), False, ProducerIdAndEpoch(PRODUCER_ID, epoch), version) is FENCED


@pytest.mark.parametrize("state", STATES)
def test_version_1_fences_the_epoch_before(state: State) -> None:
    assert ask(transaction(state), False, ProducerIdAndEpoch(PRODUCER_ID, BEFORE), 0) is FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_a_transition_under_way_has_to_end_first(version: int) -> None:
    asked = transaction(State.ONGOING)
    asked.begin(record(State.PREPARE_ABORT))
    assert ask(asked, True, version=version) is WAIT
    # Version 2 fails before it checks the producer.
    stranger = ProducerIdAndEpoch(PRODUCER_ID + 1, EPOCH)
    told = WAIT if version == 2 else ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert ask(asked, True, stranger, version) is told


def test_a_decision_of_version_1_keeps_producer_and_epoch() -> None:
    answer = ask(transaction(State.ONGOING), True, version=0)
    assert answer == record(State.PREPARE_COMMIT, last_update_ms=NOW, client_version=0, last_producer_epoch=EPOCH - 1)


def test_a_decision_of_version_2_raises_the_epoch() -> None:
    assert decision(transaction(State.ONGOING), True) == record(
        State.PREPARE_COMMIT, last_update_ms=NOW, producer_epoch=EPOCH + 1, last_producer_epoch=EPOCH
    )


def test_an_abort_without_a_transaction_starts_when_it_ends() -> None:
    answer = decision(transaction(State.EMPTY), False)
    assert (answer.start_ms, answer.partitions, answer.producer_epoch) == (NOW, frozenset(), EPOCH + 1)


def test_the_last_epoch_is_followed_by_a_new_producer_id() -> None:
    asked = transaction(State.ONGOING, producer_epoch=LAST_EPOCH)
    last = ProducerIdAndEpoch(PRODUCER_ID, LAST_EPOCH)
    prepared = decision(asked, True, last)
    assert prepared.producer == (PRODUCER_ID, LAST_EPOCH + 1)
    assert prepared.next_producer_id == FIRST_NEW_ID
    completed = complete(prepared, now_ms=NOW + 1)
    assert completed.producer == (FIRST_NEW_ID, 0)
    assert (completed.previous_producer_id, completed.next_producer_id) == (PRODUCER_ID, -1)
    # The client did not receive the response and repeats the request with the producer id that it knows.
    again = Transaction(transactional_id="orders", record=completed)
    assert ask(again, True, last) is DONE
    assert ask(again, False, last) is INVALID
    assert ask(again, True, ProducerIdAndEpoch(PRODUCER_ID, LAST_EPOCH - 1)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_only_an_overflow_makes_the_previous_producer_id_good() -> None:
    """The epoch is 0 and the previous producer id is the same, so that no producer can have had the id's last epoch."""
    first = transaction(State.COMPLETE_COMMIT, producer_epoch=0, client_version=0)
    assert ask(first, True, ProducerIdAndEpoch(PRODUCER_ID, LAST_EPOCH)) is FENCED


def test_fencing_raises_the_epoch_with_the_abort() -> None:
    fenced = transaction(State.ONGOING)
    answer = fence(fenced, server_version=2, now_ms=NOW, new_producer_id=new_ids())
    assert answer == record(
        State.PREPARE_ABORT, last_update_ms=NOW, producer_epoch=EPOCH + 1, last_producer_epoch=EPOCH
    )
    assert fenced.record == record(State.ONGOING), "nothing changes before the record is written"


def test_fencing_before_version_2_raises_the_epoch_at_once_and_only_once() -> None:
    fenced = transaction(State.ONGOING)
    expected = record(
        State.PREPARE_ABORT, last_update_ms=NOW, producer_epoch=EPOCH + 1, last_producer_epoch=-1, client_version=0
    )
    for _ in range(2):
        assert fence(fenced, server_version=1, now_ms=NOW, new_producer_id=new_ids()) == expected
        assert fenced.record.producer_epoch == EPOCH + 1
        assert ask(fenced, True) is FENCED
        fenced.has_failed_fence = True  # the append failed


def test_fencing_at_the_last_epoch_rotates_the_producer_id_too() -> None:
    fenced = transaction(State.ONGOING, producer_epoch=LAST_EPOCH)
    prepared = fence(fenced, server_version=2, now_ms=NOW, new_producer_id=new_ids())
    assert complete(prepared, now_ms=NOW).producer == (FIRST_NEW_ID, 0)


def test_completions() -> None:
    committed = complete(record(State.PREPARE_COMMIT), now_ms=NOW)
    assert committed == replace(record(State.COMPLETE_COMMIT), last_update_ms=NOW)
    assert complete(record(State.PREPARE_ABORT), now_ms=NOW).state is State.COMPLETE_ABORT
    assert complete(record(State.PREPARE_ABORT, partitions=PARTITIONS), now_ms=NOW).partitions == frozenset()
    assert committed.start_ms == EARLIER
