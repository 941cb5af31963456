"""Pending verifications of transactions: guards, preconditions, and the events that end a verification."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import InvalidProducerEpochError, OutOfOrderSequenceError
from tidelog.record.attributes import CONTROL_FLAG, TRANSACTIONAL_FLAG
from tidelog.record.control import EndTransactionMarker
from tidelog.storage.producer import (
    NO_GUARD,
    AppendOrigin,
    MarkerRecord,
    PendingVerification,
    ProducerState,
    VerificationGuard,
    Verifications,
)

ID = 7
EXPIRATION_MS = 1000


@dataclass
class Batch:
    base_sequence: int
    base_offset: int = 0
    producer_epoch: int = 0
    attributes: int = TRANSACTIONAL_FLAG
    last_offset: int = 0
    max_timestamp: int = 50
    producer_id: int = ID


def marker(epoch: int) -> Batch:
    return Batch(-1, producer_epoch=epoch, attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG)


@pytest.fixture
def state() -> ProducerState:
    return ProducerState(expiration_ms=EXPIRATION_MS)


def ask(state: ProducerState, sequence: int, *, epoch: int = 0, bump: bool = True, now: int = 0) -> VerificationGuard:
    return state.maybe_start_verification(ID, sequence, epoch, supports_epoch_bump=bump, now_ms=now)


def append(state: ProducerState, batch: Batch, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
    info = state.prepare_update(ID, origin)
    if batch.attributes & CONTROL_FLAG:
        record = MarkerRecord(EndTransactionMarker(committed=True, coordinator_epoch=0), 50)
        completed = info.append_marker(batch, record)
        state.update(info)
        if completed is not None:
            state.complete(completed)
    else:
        info.append_data(batch)
        state.update(info)


def pending(state: ProducerState) -> PendingVerification:
    found = state.verifications.get(ID)
    assert found is not None
    return found


class TestGuards:
    def test_each_is_equal_to_itself_alone(self) -> None:
        one, other = VerificationGuard(), VerificationGuard()
        assert one == VerificationGuard(one.number)
        assert len({one, other, NO_GUARD, VerificationGuard(one.number)}) == 3
        assert VerificationGuard(0) == NO_GUARD

    def test_each_verifies_itself_alone_and_no_guard_nothing(self) -> None:
        one, other = VerificationGuard(), VerificationGuard()
        verified = [(a, b) for a in (one, other, NO_GUARD) for b in (one, other, NO_GUARD) if a.verify(b)]
        assert verified == [(one, one), (other, other)]


class TestAsking:
    def test_the_same_guard_until_something_is_appended(self, state: ProducerState) -> None:
        guard = ask(state, 0)
        assert guard == ask(state, 0) == state.verifications.guard(ID) == pending(state).guard
        assert state.verifications.guard(8) == NO_GUARD
        state.verifications.clear(ID)
        assert state.verifications.get(ID) is None
        assert ask(state, 0) not in (guard, NO_GUARD)

    def test_the_lowest_sequence_of_the_newest_epoch_is_kept(self, state: ProducerState) -> None:
        guard = ask(state, 1)
        seen = [(pending(state).lowest_sequence, pending(state).producer_epoch)]
        for sequence, epoch in ((0, 0), (5, 0), (2, 1), (0, 0), (3, 1)):
            assert ask(state, sequence, epoch=epoch) == guard
            seen.append((pending(state).lowest_sequence, pending(state).producer_epoch))
        assert seen == [(1, 0), (0, 0), (0, 0), (2, 1), (2, 1), (2, 1)]

    def test_none_is_needed_in_an_open_transaction(self, state: ProducerState) -> None:
        append(state, Batch(0))
        assert ask(state, 1) == NO_GUARD
        assert state.verifications.get(ID) is None
        assert state.is_verified(Batch(1), NO_GUARD)
        assert ask(state, 0, epoch=1) != NO_GUARD, "another epoch's transaction"

    def test_an_older_epoch_is_refused(self, state: ProducerState) -> None:
        append(state, Batch(0, producer_epoch=3))
        with pytest.raises(InvalidProducerEpochError, match="epoch 2, the log knows it at epoch 3"):
            ask(state, 0, epoch=2)

    def test_what_a_guard_allows(self, state: ProducerState) -> None:
        assert not state.is_verified(Batch(0), NO_GUARD)
        guard = ask(state, 0)
        allowed = [state.is_verified(Batch(0), other) for other in (guard, NO_GUARD, VerificationGuard())]
        assert allowed == [True, False, False]
        append(state, Batch(0))
        append(state, marker(0))
        assert not state.is_verified(Batch(1), guard), "the transaction ended while its batch was under way"


class TestWhatComesFirst:
    def test_a_sequence_above_the_lowest_waits(self, state: ProducerState) -> None:
        ask(state, 0)
        before = pending(state)
        with pytest.raises(OutOfOrderSequenceError, match="sends sequence 4, 0 was expected"):
            append(state, Batch(4))
        assert pending(state) is before
        append(state, Batch(0))

    def test_a_new_transaction_of_a_known_producer(self, state: ProducerState) -> None:
        append(state, Batch(0, attributes=0))
        ask(state, 1)
        ask(state, 2)
        with pytest.raises(OutOfOrderSequenceError, match="sends sequence 2, 1 at most was expected"):
            append(state, Batch(2))
        append(state, Batch(1))

    def test_version_2_begins_at_0_where_nothing_is_known(self, state: ProducerState) -> None:
        ask(state, 5)
        with pytest.raises(OutOfOrderSequenceError, match="sends sequence 5, 0 was expected"):
            append(state, Batch(5))
        append(state, Batch(0))

    def test_version_1_may_go_on_where_nothing_is_known(self, state: ProducerState) -> None:
        ask(state, 5, bump=False)
        append(state, Batch(5))
        assert state.producers[ID].last_sequence == 5

    def test_other_origins_have_no_sequences(self, state: ProducerState) -> None:
        ask(state, 0)
        append(state, Batch(9), AppendOrigin.REPLICATION)
        assert state.producers[ID].last_sequence == 9


class TestTheEndOfTheWait:
    @pytest.mark.parametrize(
        ("batch", "bump", "waits"),
        [
            (Batch(0), True, False),
            (Batch(0, attributes=0), True, True),
            (marker(0), False, False),
            (marker(0), True, True),  # version 2: the marker that ends the previous transaction has the next epoch
            (marker(1), True, False),
        ],
    )
    def test_by_an_append(self, state: ProducerState, batch: Batch, bump: bool, waits: bool) -> None:
        ask(state, 0, bump=bump)
        append(state, batch, AppendOrigin.COORDINATOR if batch.attributes & CONTROL_FLAG else AppendOrigin.CLIENT)
        assert (state.verifications.get(ID) is not None) is waits

    def test_not_by_a_check_alone(self, state: ProducerState) -> None:
        ask(state, 0)
        info = state.prepare_update(ID, AppendOrigin.CLIENT)
        info.append_data(Batch(0))
        assert info.ends_verification
        assert state.verifications.get(ID) is not None

    def test_by_time_since_it_was_first_asked_for(self, state: ProducerState) -> None:
        ask(state, 0)
        ask(state, 0, now=EXPIRATION_MS - 1)
        state.remove_expired(EXPIRATION_MS - 1)
        assert state.verifications.get(ID) is not None
        state.remove_expired(EXPIRATION_MS)
        assert state.verifications.get(ID) is None

    def test_by_batches_that_another_leader_sent(self, state: ProducerState) -> None:
        verifications = state.verifications
        ask(state, 0)
        verifications.appended(Batch(0, producer_id=8))
        assert verifications.get(ID) is not None
        verifications.appended(Batch(0))
        assert verifications.get(ID) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 3))))
def test_as_a_list_of_what_was_asked(asked: list[tuple[int, int, int]]) -> None:
    verifications = Verifications()
    guards: dict[int, object] = {}
    for producer_id, sequence, epoch in asked:
        found = verifications.maybe_create(producer_id, sequence, epoch, supports_epoch_bump=False, now_ms=0)
        assert guards.setdefault(producer_id, found.guard) == found.guard
    for producer_id in guards:
        epochs = [epoch for other, _, epoch in asked if other == producer_id]
        first_of_newest = epochs.index(max(epochs))
        mine = [(sequence, epoch) for other, sequence, epoch in asked if other == producer_id][first_of_newest:]
        kept = verifications.get(producer_id)
        assert kept is not None
        assert kept.producer_epoch == max(epochs)
        assert kept.lowest_sequence == min(sequence for sequence, epoch in mine if epoch == max(epochs))
