"""Bounds of a partition, and the states of transactions that wait for their markers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from log_maker import batch
from tidelog.mirroring.run.partition_copy import PartitionCopy
from tidelog.mirroring.run.protection import SourceLostDataError, require_proven
from tidelog.mirroring.target.transaction_states import producer_ids, size_before_open
from tidelog.model import TopicPartition
from tidelog.record.internal_records.transaction_record import TransactionRecord, TransactionState, key_of, value_of
from tidelog.replication.follower_commands import LogCommand, TruncateFully, TruncateTo, TruncationCause
from tidelog.replication.follower_events import FetchedPartition, FetchPosition
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.epoch import EpochEndOffset
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig

STATES = TopicPartition("__transaction_state", 0)


def opened(path: Path) -> PartitionLog:
    return PartitionLog.open(
        OpenRequest(fs=LOCAL, directory=path / "t-0", clock=SYSTEM_CLOCK, config=LogConfig(), clean_shutdown=True)
    )


def copy_of(log: PartitionLog, *, is_exact: bool = True) -> PartitionCopy:
    return PartitionCopy(STATES, log, is_exact=is_exact, backoff_ms=1)


def state(offset: int, state: TransactionState, producer_id: int, previous: int = -1) -> bytes:
    record = TransactionRecord(
        state=state,
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=1,
        last_update_ms=1,
        previous_producer_id=previous,
    )
    return batch(offset, [value_of(record, 1)], key=key_of(f"tx-{producer_id}"))


def position(log: PartitionLog) -> FetchPosition:
    return FetchPosition(offset=log.end_offset, leader_epoch=0, last_fetched_epoch=0, log_start_offset=0)


class TestTransactionStates:
    DATA = (
        state(0, TransactionState.PREPARE_COMMIT, 7)
        + state(1, TransactionState.COMPLETE_COMMIT, 7)
        + state(2, TransactionState.ONGOING, 8)
        + state(3, TransactionState.COMPLETE_ABORT, 8)
    )

    def test_a_completion_waits_for_its_markers(self) -> None:
        size = len(self.DATA) // 4
        assert size_before_open(self.DATA, {7}.__contains__) == size
        assert size_before_open(self.DATA, {8}.__contains__) == 3 * size
        assert size_before_open(self.DATA, {9}.__contains__) == len(self.DATA)

    def test_a_new_producer_id_waits_for_the_markers_of_the_previous_one(self) -> None:
        data = state(0, TransactionState.COMPLETE_COMMIT, 20, previous=7)
        assert size_before_open(data, {7}.__contains__) == 0
        assert max(producer_ids(data)) == 20

    def test_tombstones_and_unknown_records_are_left_out(self) -> None:
        data = batch(0, [None, struct.pack(">h", 99)], key=key_of("tx"))
        assert list(producer_ids(data)) == []
        assert size_before_open(data, {7}.__contains__) == len(data)

    def test_the_copy_ends_before_a_held_completion(self, tmp_path: Path) -> None:
        copy = copy_of(opened(tmp_path))
        copy.need(4)
        copy.held_ids = frozenset({8})
        fetched = copy.bounded(FetchedPartition(records=self.DATA, high_watermark=4))
        assert fetched.records == self.DATA[: 3 * len(self.DATA) // 4]
        assert copy.bound == 3


class TestBounds:
    DATA = b"".join(batch(number, [b"a"]) for number in range(5))

    def test_coordinators_records_end_at_the_bound_and_others_may_not(self, tmp_path: Path) -> None:
        log = opened(tmp_path)
        for is_exact, count in ((True, 3), (False, 5)):
            copy = copy_of(log, is_exact=is_exact)
            copy.need(3)
            records = copy.bounded(FetchedPartition(records=self.DATA)).records
            assert records is not None
            assert bytes(records) == self.DATA[: count * len(self.DATA) // 5]

    def test_a_copy_with_records_is_complete_once_the_source_confirms_its_end(self, tmp_path: Path) -> None:
        log = opened(tmp_path)
        log.append_as_follower(self.DATA, 0)
        copy = copy_of(log)
        copy.need(5)
        assert not copy.is_complete
        diverging = FetchedPartition(diverging_epoch=EpochEndOffset(0, 3), high_watermark=9)
        copy.note_response(position(log), diverging, is_empty=True)
        assert not copy.is_complete
        copy.note_response(position(log), FetchedPartition(high_watermark=4), is_empty=True)
        assert not copy.is_complete, "a leader below the copy's end does not confirm it"
        copy.note_response(position(log), FetchedPartition(high_watermark=5), is_empty=True)
        assert copy.is_complete

    def test_a_gap_at_the_end_is_complete_if_nothing_was_left_out_of_the_response(self, tmp_path: Path) -> None:
        log = opened(tmp_path)
        log.append_as_follower(self.DATA, 0)
        copy = copy_of(log)
        copy.need(9)
        copy.note_response(position(log), FetchedPartition(high_watermark=9), is_empty=False)
        assert (copy.is_complete, copy.lag) == (False, 4)
        copy.note_response(position(log), FetchedPartition(high_watermark=9), is_empty=True)
        assert (copy.is_complete, copy.lag) == (True, 0)

    def test_silence_in_a_session_means_the_known_end(self, tmp_path: Path) -> None:
        log = opened(tmp_path)
        log.append_as_follower(self.DATA, 0)
        copy = copy_of(log)
        copy.need(9)
        copy.note_response(position(log), FetchedPartition(high_watermark=9), is_empty=False)
        copy.note_silence(position(log), is_empty=False)
        assert not copy.is_complete
        copy.note_silence(position(log), is_empty=True)
        assert copy.is_complete


@pytest.mark.parametrize(
    ("command", "is_allowed"),
    [
        (TruncateTo(offset=7, cause=TruncationCause.DIVERGING_EPOCH, high_watermark=9), True),
        (TruncateTo(offset=5, cause=TruncationCause.DIVERGING_EPOCH, high_watermark=9), False),
        (TruncateTo(offset=7, cause=TruncationCause.LEADER_END, high_watermark=9), False),
        (TruncateTo(offset=7, cause=TruncationCause.NO_EPOCHS, high_watermark=9), False),
        (TruncateTo(offset=9, cause=TruncationCause.LEADER_END, high_watermark=9), True),
        (TruncateFully(offset=20), True),
    ],
)
def test_removals_need_a_proof(command: LogCommand, is_allowed: bool) -> None:
    if is_allowed:
        require_proven(STATES, command, 5, 9)
    else:
        with pytest.raises(SourceLostDataError, match="Nothing was removed"):
            require_proven(STATES, command, 5, 9)


class TestConfirmation:
    """A one-time run ends only after the source has confirmed the end of the copy."""

    @pytest.fixture
    def copy(self, tmp_path: Path) -> Iterator[PartitionCopy]:
        log = opened(tmp_path)
        log.append_as_follower(batch(0, [b"1", b"2"]), 0)
        yield copy_of(log)
        log.close()

    def test_a_session_without_news_after_a_truncation_confirms_the_new_end(self, copy: PartitionCopy) -> None:
        copy.bound = 0
        diverging = FetchedPartition(high_watermark=0, diverging_epoch=EpochEndOffset(epoch=0, end_offset=0))
        copy.note_response(position(copy.log), diverging, is_empty=True)
        copy.log.truncate_to(0)
        assert not copy.has_reached(0)
        copy.note_silence(position(copy.log), is_empty=True)
        assert copy.has_reached(0)

    def test_a_session_without_news_confirms_no_end_above_the_sources(self, copy: PartitionCopy) -> None:
        copy.bound = 0
        copy.note_response(position(copy.log), FetchedPartition(high_watermark=1), is_empty=True)
        copy.note_silence(position(copy.log), is_empty=True)
        assert not copy.has_reached(0)
