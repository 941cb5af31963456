"""The rules for the appends of one producer: Kafka's ProducerStateManagerTest, as tables."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tidelog.kernel import last_sequence_of
from tidelog.model import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    LogOffsetMetadata,
    OutOfOrderSequenceError,
    TidelogError,
    TransactionCoordinatorFencedError,
)
from tidelog.record.attributes import CONTROL_FLAG, TRANSACTIONAL_FLAG
from tidelog.record.control import EndTransactionMarker
from tidelog.storage.producer import AppendOrigin, CachedBatch, CompletedTransaction, MarkerRecord, ProducerState
from tidelog.storage.producer.append_info import MAX_PRODUCER_EPOCH
from tidelog.storage.producer.replay_rows import ReplayBatch

CLIENT, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.REPLICATION
COORDINATOR, RAFT_LEADER = AppendOrigin.COORDINATOR, AppendOrigin.RAFT_LEADER
MAX_SEQUENCE = 2**31 - 1
ID = 7


@dataclass
class Batch:
    base_sequence: int
    base_offset: int
    count: int = 1
    producer_epoch: int = 0
    max_timestamp: int = 1000
    attributes: int = 0
    producer_id: int = ID

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.count - 1


class Log:
    """A stand-in log that appends to a producer state and counts offsets."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.end = 0

    def data(
        self,
        sequence: int,
        *,
        epoch: int = 0,
        count: int = 1,
        transactional: bool = False,
        origin: AppendOrigin = CLIENT,
        producer_id: int = ID,
    ) -> None:
        info = self.state.prepare_update(producer_id, origin)
        flags = TRANSACTIONAL_FLAG if transactional else 0
        batch = Batch(sequence, self.end, count, epoch, 1000 + self.end, flags, producer_id)
        info.append_data(batch, LogOffsetMetadata(self.end, 0, self.end * 100))
        self.state.update(info)
        self.end += count

    def marker(
        self,
        *,
        committed: bool = True,
        epoch: int = 0,
        coordinator: int = 0,
        origin: AppendOrigin = COORDINATOR,
        version: int = 0,
    ) -> CompletedTransaction | None:
        """Append a marker. ``version`` is the transaction's ``transaction.version``."""
        info = self.state.prepare_update(ID, origin)
        batch = Batch(-1, self.end, 1, epoch, 5000, CONTROL_FLAG | TRANSACTIONAL_FLAG)
        marker = EndTransactionMarker(committed=committed, coordinator_epoch=coordinator)
        completed = info.append_marker(batch, MarkerRecord(marker, 5000 + self.end), transaction_version=version)
        self.state.update(info)
        if completed:
            self.state.complete(completed)
        self.end += 1
        return completed


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(0, 0, 0), (5, 4, 9), (-1, 9, -1), (MAX_SEQUENCE, 0, MAX_SEQUENCE)]
)
def test_last_sequences(base: int, delta: int, last: int) -> None:
    assert last_sequence_of(base, delta) == last
    assert base == -1 or CachedBatch(last, 100, delta, 0).first_sequence == base


def test_sequences_go_around() -> None:
    assert last_sequence_of(MAX_SEQUENCE - 2, 4) == 1
    assert CachedBatch(1, 100, 4, 0).first_sequence == MAX_SEQUENCE - 2
    assert CachedBatch(1, 100, 4, 0).first_offset == 96


@pytest.mark.parametrize(
    ("before", "next_", "error"),
    [
        ([], (7, 0), None),  # an unknown producer may begin with any sequence
        ([], (0, 5), None),
        ([(0, 0)], (1, 0), None),
        ([(0, 0)], (2, 0), OutOfOrderSequenceError),
        ([(0, 0)], (0, 0), OutOfOrderSequenceError),
        ([(0, 0)], (0, 1), None),
        ([(0, 0)], (1, 1), OutOfOrderSequenceError),
        ([(0, 5)], (1, 4), InvalidProducerEpochError),
        ([(MAX_SEQUENCE, 0)], (0, 0), None),
        ([(MAX_SEQUENCE, 0)], (1, 0), OutOfOrderSequenceError),
    ],
)
def test_what_a_client_may_send_next(
    log: Log, before: list[tuple[int, int]], next_: tuple[int, int], error: type[TidelogError] | None
) -> None:
    for sequence, epoch in before:
        log.data(sequence, epoch=epoch)
    if error is None:
        log.data(next_[0], epoch=next_[1])
        assert (log.state.producers[ID].last_sequence, log.state.producers[ID].producer_epoch) == next_
    else:
        with pytest.raises(error) as caught:
            log.data(next_[0], epoch=next_[1])
        assert caught.value.offset == log.end
        assert log.state.producers[ID].last_sequence == before[-1][0]


def test_several_batches_in_one_append(log: Log) -> None:
    info = log.state.prepare_update(ID, CLIENT)
    info.append_data(Batch(0, 0, 3))
    info.append_data(Batch(3, 3, 2))
    with pytest.raises(OutOfOrderSequenceError, match="sends sequence 9, 0 was expected"):
        info.append_data(Batch(9, 5, producer_epoch=1))
    assert ID not in log.state.producers
    log.state.update(info)
    assert [batch.last_sequence for batch in log.state.producers[ID].batches] == [2, 4]


def test_nothing_changes_before_the_append_is_sure(log: Log) -> None:
    log.data(0, count=6)
    before = log.state.snapshot()
    info = log.state.prepare_update(ID, CLIENT)
    info.append_data(Batch(6, 6, 5, attributes=TRANSACTIONAL_FLAG))
    assert info.updated.last_sequence == 10
    assert log.state.snapshot() == before
    assert log.state.first_unstable_offset() is None
    log.state.update(info)
    entry = log.state.producers[ID]
    assert (entry.last_sequence, entry.last_data_offset, entry.transaction_first_offset) == (10, 10, 6)


def test_data_and_marker_in_one_append(log: Log) -> None:
    """The marker ends the transaction, and the batches before it stay known."""
    log.data(0)
    info = log.state.prepare_update(ID, CLIENT)
    begun = []
    for sequence, offset in ((1, 16), (6, 26)):
        info.append_data(Batch(sequence, offset, 5, attributes=TRANSACTIONAL_FLAG))
        begun.append((info.updated.transaction_first_offset, info.updated.last_data_offset))
    assert begun == [(16, 20), (16, 30)]
    marker = MarkerRecord(EndTransactionMarker(committed=True, coordinator_epoch=15), 5000)
    assert info.append_marker(Batch(-1, 40), marker) == (ID, 16, 40, False)
    updated = info.updated
    assert [(batch.first_sequence, batch.last_sequence) for batch in updated.batches] == [(1, 5), (6, 10)]
    assert (updated.transaction_first_offset, updated.coordinator_epoch) == (None, 15)
    assert info.started == [LogOffsetMetadata(16)]


def test_several_transactions_in_one_append(log: Log) -> None:
    """Markers without data complete no transaction and do not delay the first unstable offset."""
    log.data(0, count=5, transactional=True)
    info = log.state.prepare_update(ID, CLIENT)
    ended: list[CompletedTransaction | None] = []
    for offset, sequence, committed in (
        (5, None, True),
        (6, None, False),
        (7, 5, False),
        (9, None, False),
        (10, 6, None),
    ):
        if sequence is not None:
            info.append_data(Batch(sequence, offset, attributes=TRANSACTIONAL_FLAG))
            offset += 1
        if committed is not None:
            marker = MarkerRecord(EndTransactionMarker(committed=committed, coordinator_epoch=0), 5000)
            ended.append(info.append_marker(Batch(-1, offset), marker))
    assert ended == [(ID, 0, 5, False), None, (ID, 7, 8, True), None]
    assert [start.message_offset for start in info.started] == [7, 10]
    log.state.update(info)
    for completed in ended:
        if completed is not None:
            log.state.complete(completed)
    log.state.on_high_watermark_updated(11)
    assert log.state.first_unstable_offset() == LogOffsetMetadata(10)


def test_a_marker_alone_still_fences(log: Log) -> None:
    log.marker(epoch=2)
    assert log.state.producers[ID].last_sequence == -1
    with pytest.raises(InvalidProducerEpochError):
        log.data(0, epoch=0)
    with pytest.raises(OutOfOrderSequenceError, match="sends sequence 17, 0 was expected"):
        log.data(17, epoch=2)
    log.data(0, epoch=2)
    assert log.state.producers[ID].last_sequence == 0


def test_after_a_marker_sequences_go_on_and_a_new_epoch_begins_at_0(log: Log) -> None:
    log.data(0, count=3, transactional=True)
    assert log.marker() == (ID, 0, 3, False)
    log.data(3, transactional=True)
    assert log.marker(epoch=1, committed=False) == (ID, 4, 5, True)
    entry = log.state.producers[ID]
    assert (entry.producer_epoch, entry.last_sequence, entry.last_data_offset) == (1, -1, -1)
    with pytest.raises(OutOfOrderSequenceError):
        log.data(4, epoch=1)
    log.data(0, epoch=1)


@pytest.mark.parametrize(
    ("origin", "sequences", "epochs"),
    [(CLIENT, True, True), (COORDINATOR, False, True), (RAFT_LEADER, False, True), (REPLICATION, False, False)],
)
def test_how_much_is_checked(log: Log, origin: AppendOrigin, sequences: bool, epochs: bool) -> None:
    log.data(0, epoch=3)
    for checked, error, sequence, epoch in (
        (sequences, OutOfOrderSequenceError, 77, 3),
        (epochs, InvalidProducerEpochError, 78, 2),
    ):
        if checked:
            with pytest.raises(error):
                log.data(sequence, epoch=epoch, origin=origin)
        else:
            log.data(sequence, epoch=epoch, origin=origin)


@pytest.mark.parametrize("origin", [COORDINATOR, REPLICATION])
def test_older_coordinators_and_producers_are_fenced(log: Log, origin: AppendOrigin) -> None:
    log.marker(coordinator=5, epoch=2)
    if origin is REPLICATION:
        log.marker(coordinator=4, epoch=2, origin=origin)
        log.marker(coordinator=4, epoch=1, origin=origin)
        return
    with pytest.raises(TransactionCoordinatorFencedError, match=r"coordinator epoch 4 .* one of epoch 5"):
        log.marker(coordinator=4, epoch=2)
    with pytest.raises(InvalidProducerEpochError, match="epoch 1, the log knows it at epoch 2"):
        log.marker(coordinator=5, epoch=1)
    assert [error.code for error in (TransactionCoordinatorFencedError, InvalidProducerEpochError)] == [52, 47]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_from_version_2_on_a_markers_epoch_lies_above_that_of_the_data(log: Log, version: int) -> None:
    """A late marker of the previous transaction has the data's epoch, so it cannot end this one (KIP-1228)."""
    log.data(0, epoch=3, transactional=True)
    if version == 2:
        with pytest.raises(InvalidProducerEpochError, match=r"has epoch 3 .* as the data of its transaction") as caught:
            log.marker(epoch=3, version=version)
        assert caught.value.offset == 1
        assert log.marker(epoch=4, version=version) == (ID, 0, 1, False)
    else:
        assert log.marker(epoch=3, version=version) == (ID, 0, 1, False)
    log.marker(epoch=4, version=version)  # the marker is repeated
    with pytest.raises(InvalidProducerEpochError, match="epoch 2, the log knows it"):
        log.marker(epoch=2, version=version)


def test_a_marker_of_the_highest_epoch_has_that_of_the_data(log: Log) -> None:
    log.data(0, epoch=MAX_PRODUCER_EPOCH, transactional=True)
    assert log.marker(epoch=MAX_PRODUCER_EPOCH, version=2) == (ID, 0, 1, False)


def test_a_follower_takes_the_markers_that_its_leader_took(log: Log) -> None:
    log.data(0, epoch=3, transactional=True)
    assert log.marker(epoch=3, version=2, origin=REPLICATION) == (ID, 0, 1, False)


def test_a_transaction_takes_no_other_data(log: Log) -> None:
    log.data(0, transactional=True)
    with pytest.raises(InvalidTransactionStateError, match="open transaction since 0") as caught:
        log.data(1)
    assert caught.value.offset == 1
    assert log.marker() == (ID, 0, 1, False)
    log.data(1)


def test_a_marker_without_data_ends_nothing(log: Log) -> None:
    assert log.marker(epoch=4, coordinator=2) is None
    entry = log.state.producers[ID]
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp) == (4, 2, 5000)
    assert log.state.first_unstable_offset() is None


def test_a_marker_that_compaction_emptied(log: Log) -> None:
    info = log.state.prepare_update(ID, REPLICATION)
    assert info.append_marker(Batch(-1, 0, attributes=CONTROL_FLAG), None) is None
    log.state.update(info)
    entry = log.state.producers[ID]
    assert (entry.producer_epoch, entry.last_timestamp, entry.coordinator_epoch) == (-1, -1, -1)


def test_five_batches_are_remembered(log: Log) -> None:
    for number in range(7):
        log.data(number * 2, count=2)
    entry = log.state.producers[ID]
    assert [batch.first_sequence for batch in entry.batches] == [4, 6, 8, 10, 12]
    found = entry.find_duplicate(Batch(6, 500, 2))
    assert found is not None
    assert (found.first_offset, found.last_offset) == (6, 7)
    for other in (Batch(2, 500, 2), Batch(6, 500, 1), Batch(7, 500, 2), Batch(6, 500, 2, producer_epoch=1)):
        assert entry.find_duplicate(other) is None
    log.data(0, epoch=1)
    assert [batch.first_sequence for batch in entry.batches] == [0]


def test_the_first_unstable_offset(log: Log) -> None:
    log.data(0, transactional=True)
    log.data(0, transactional=True, producer_id=8)
    assert log.state.first_unstable_offset() == LogOffsetMetadata(0, 0, 0)
    completed = log.marker()
    assert completed == (ID, 0, 2, False)
    transactions = log.state.transactions
    assert [(open_.first_offset.message_offset, open_.producer_id) for open_ in transactions.ongoing] == [(1, 8)]
    assert log.state.first_unstable_offset() == LogOffsetMetadata(0, 0, 0)
    log.state.on_high_watermark_updated(2)
    assert log.state.first_unstable_offset() == LogOffsetMetadata(0, 0, 0)
    log.state.on_high_watermark_updated(3)
    assert log.state.first_unstable_offset() == LogOffsetMetadata(1, 0, 100)
    assert completed is not None
    with pytest.raises(InvalidTransactionStateError, match="was not begun"):
        log.state.complete(completed)


def test_the_last_stable_offset_of_an_ended_transaction(log: Log) -> None:
    """The offset is the start of the next open transaction of another producer, or else the offset after the marker."""
    log.data(0, transactional=True)
    transactions = log.state.transactions
    assert transactions.last_stable_offset(CompletedTransaction(ID, 0, 9, True)) == 10
    log.data(0, transactional=True, producer_id=8)
    log.data(0, transactional=True, producer_id=9)
    assert transactions.last_stable_offset(CompletedTransaction(ID, 0, 9, True)) == 1
    assert transactions.last_stable_offset(CompletedTransaction(8, 1, 9, True)) == 0


@pytest.mark.parametrize(
    ("change", "continues"),
    [
        ({}, True),
        ({"base_sequence": 6}, False),  # a gap
        ({"base_sequence": 4}, False),  # a duplicate
        ({"producer_epoch": 1}, False),
        ({"producer_id": 8}, False),
        ({"attributes": TRANSACTIONAL_FLAG}, False),  # begins a transaction
        ({"attributes": CONTROL_FLAG}, False),
    ],
)
def test_a_batch_that_only_continues(change: dict[str, int], continues: bool) -> None:
    """The fast path takes a batch only if the full check would accept it, and with the same outcome."""
    fields = {
        "producer_id": 7,
        "producer_epoch": 0,
        "base_sequence": 5,
        "base_offset": 100,
        "last_offset": 101,
        "max_timestamp": 9,
        "attributes": 0,
        "position": 0,
        "size": 70,
        "is_control": False,
    }
    first = ReplayBatch(**(fields | {"base_sequence": 0, "base_offset": 10, "last_offset": 14}))  # type: ignore[arg-type]
    batch = ReplayBatch(**(fields | change))  # type: ignore[arg-type]
    short, whole = ProducerState(), ProducerState()
    for state in (short, whole):
        info = state.prepare_update(7, AppendOrigin.CLIENT)
        info.append_data(first)
        state.update(info)
    entry = short.continued(batch)
    assert (entry is not None) == continues
    if entry is not None:
        entry.add_batch(batch)
        info = whole.prepare_update(7, AppendOrigin.CLIENT)
        info.append_data(batch)
        whole.update(info)
        assert short.producers == whole.producers


def test_a_batch_that_continues_waits_for_a_verification() -> None:
    state = ProducerState()
    batch = ReplayBatch(7, 0, 0, 10, 14, 9, 0, 0, 70, False)
    info = state.prepare_update(7, AppendOrigin.CLIENT)
    info.append_data(batch)
    state.update(info)
    following = batch._replace(base_sequence=5, base_offset=15, last_offset=16)
    assert state.continued(following) is not None
    state.maybe_start_verification(7, 5, 0, supports_epoch_bump=False, now_ms=0)
    assert state.continued(following) is None
