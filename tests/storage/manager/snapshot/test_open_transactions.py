"""Transactions that are open at a snapshot's time: their end by the coordinators' records, and the state they leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshot_checks import digests, records, snapshot
from snapshot_source import T0, Source
from tidelog.model import InvalidProducerEpochError, TopicPartition
from tidelog.record.internal_records.transaction_record import (
    TransactionRecord,
    TransactionState,
    key_of,
    record_of,
    value_of,
)
from tidelog.storage.fs import LOCAL
from tidelog.storage.index import AbortedTxn, TransactionIndexReader
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.view_producers import read_producers
from tidelog.storage.manager.snapshot.partition_end import Moment
from tidelog.storage.manager.snapshot.snapshot_plan import SnapshotOptions, SnapshotPaths, plan_snapshot
from tidelog.storage.producer import AppendOrigin

DATA, STATE = TopicPartition("t", 0), TopicPartition("__transaction_state", 0)
PRODUCER, AT = 7, T0 + 50
COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"


def make(path: Path, state: TransactionState | None, *, updated_ms: int = AT, epoch: int = 0) -> Source:
    """Write a transaction whose marker comes after the time, and the coordinator's record of before it."""
    source = Source(path)
    if state is not None:
        record = TransactionRecord(
            state=state,
            producer_id=PRODUCER,
            producer_epoch=epoch,
            timeout_ms=60_000,
            last_update_ms=updated_ms,
            start_ms=T0,
            partitions=frozenset() if state is TransactionState.EMPTY else frozenset({DATA}),
        )
        source.log("__transaction_state-0").append(
            [updated_ms], keys=[key_of("tx")], values=[value_of(record, 1)], origin=AppendOrigin.COORDINATOR
        )
    log = source.log("t-0")
    log.append([T0] * 2)
    log.append([T0 + 10] * 3, producer_id=PRODUCER, transactional=True)
    log.append([T0 + 20], producer_id=PRODUCER, transactional=True)
    log.end_transaction(PRODUCER, committed=True, timestamp=AT + 1)
    log.append([T0 + 30])
    source.finish()
    return source


CASES = {
    "unknown": (None, AT, ABORT, 0),
    "ongoing": (TransactionState.ONGOING, AT, ABORT, 1),
    "prepared commit": (TransactionState.PREPARE_COMMIT, AT, COMMIT, 0),
    "complete commit": (TransactionState.COMPLETE_COMMIT, AT, COMMIT, 0),
    "prepared abort": (TransactionState.PREPARE_ABORT, AT, ABORT, 0),
    "complete abort": (TransactionState.COMPLETE_ABORT, AT, ABORT, 0),
    "of an earlier transaction": (TransactionState.COMPLETE_COMMIT, T0 + 5, ABORT, 0),
    "no transaction yet": (TransactionState.EMPTY, AT, ABORT, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_the_coordinators_record_decides(case: str, tmp_path: Path) -> None:
    state, updated_ms, key, epoch = CASES[case]
    source = make(tmp_path / "data", state, updated_ms=updated_ms)
    before = digests(source.path)
    result = snapshot(source.path, tmp_path / "copy", at_ms=AT)
    *found, marker = records(tmp_path / "copy", DATA)
    assert found == source.logs[DATA].seen[:6]
    assert (marker.offset, marker.is_control, marker.producer_id) == (6, True, PRODUCER)
    assert (marker.key, marker.timestamp, marker.value) == (key, AT, b"\0\0\0\0\0\0")
    (settled,) = next(one for one in result.directories[0].partitions if one.partition == DATA).transactions
    assert settled.end.value == ("committed" if key == COMMIT else "aborted")
    assert settled.transactional_id == (None if state is None else "tx")
    entry = read_producers(LogView(LOCAL, tmp_path / "copy" / "t-0"))[PRODUCER]
    assert (entry.transaction_first_offset, entry.producer_epoch) == (None, epoch)
    aborted = [AbortedTxn(PRODUCER, 2, 6, 7)] if key == ABORT else []
    index = tmp_path / "copy" / "t-0" / f"{0:020}.txnindex"
    assert (list(TransactionIndexReader(index.read_bytes(), 0)) if index.exists() else []) == aborted
    assert digests(source.path) == before


def test_the_plan_forecasts_the_end(tmp_path: Path) -> None:
    for name, (state, updated_ms, key, _) in CASES.items():
        source = make(tmp_path / name, state, updated_ms=updated_ms)
        pair = SnapshotPaths(source=source.path, target=tmp_path / "copy")
        plan = plan_snapshot(LOCAL, [pair], SnapshotOptions(moment=Moment(at_ms=AT), now_ms=AT))
        found = {one.partition: one.transactions for one in plan.partitions}[DATA]
        assert [one.end.value for one in found] == ["committed" if key == COMMIT else "aborted"], name


def last_record(path: Path) -> TransactionRecord:
    value = records(path, STATE)[-1].value
    assert value is not None
    return record_of(value)


def test_an_ongoing_id_is_fenced_in_the_coordinators_log(tmp_path: Path) -> None:
    """The old client cannot go on with a transaction that was aborted, as after a timeout at a coordinator."""
    source = make(tmp_path / "data", TransactionState.ONGOING, epoch=0)
    snapshot(source.path, tmp_path / "copy", at_ms=AT)
    record = last_record(tmp_path / "copy")
    assert (record.state, record.producer_epoch) == (TransactionState.COMPLETE_ABORT, 1)
    assert (record.partitions, record.producer_id, record.last_update_ms) == (frozenset(), PRODUCER, AT)
    going_on = Source(tmp_path / "copy")
    log = going_on.log("t-0")
    with pytest.raises(InvalidProducerEpochError):
        log.append([AT], producer_id=PRODUCER, transactional=True)
    log.epochs[PRODUCER], log.sequences[PRODUCER] = 1, 0
    log.append([AT], producer_id=PRODUCER, transactional=True)
    log.end_transaction(PRODUCER, committed=True, timestamp=AT)
    going_on.finish()
    assert records(tmp_path / "copy", DATA)[-1].key == COMMIT


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_ABORT])
def test_a_decided_id_does_not_change(state: TransactionState, tmp_path: Path) -> None:
    source = make(tmp_path / "data", state)
    snapshot(source.path, tmp_path / "copy", at_ms=AT)
    assert records(tmp_path / "copy", STATE) == source.logs[STATE].seen


def test_kept_transactions_stay_open(tmp_path: Path) -> None:
    source = make(tmp_path / "data", TransactionState.ONGOING)
    result = snapshot(source.path, tmp_path / "copy", at_ms=AT, open_transactions="keep")
    assert records(tmp_path / "copy", DATA) == source.logs[DATA].seen[:6]
    assert records(tmp_path / "copy", STATE) == source.logs[STATE].seen
    entry = read_producers(LogView(LOCAL, tmp_path / "copy" / "t-0"))[PRODUCER]
    assert entry.transaction_first_offset == 2
    kept = [one.end.value for part in result.directories[0].partitions for one in part.transactions]
    assert kept == ["kept"]


def test_a_producer_goes_on_with_the_sequence_of_the_end(tmp_path: Path) -> None:
    """The end lies inside of a batch: its first records count, and the next sequence follows them."""
    source = Source(tmp_path / "data")
    log = source.log("t-0")
    log.append([T0 + 1, T0 + 2, T0 + 3, T0 + 4], producer_id=PRODUCER, codec="zstd")
    source.finish()
    snapshot(source.path, tmp_path / "copy", at_ms=T0 + 2)
    going_on = Source(tmp_path / "copy")
    copied = going_on.log("t-0")
    copied.sequences[PRODUCER] = 2
    copied.append([T0 + 9], producer_id=PRODUCER)
    going_on.finish()
    assert [one.timestamp - T0 for one in records(tmp_path / "copy", DATA)] == [1, 2, 9]


def test_transactions_of_several_directories_know_the_coordinator_of_one(tmp_path: Path) -> None:
    """The coordinator's partition and the data are on different disks of a broker."""
    from tidelog.storage.manager.snapshot.snapshot import take_snapshot

    one = make(tmp_path / "one", TransactionState.PREPARE_COMMIT)
    (one.path / "__transaction_state-0").rename(tmp_path / "moved")
    two = Source(tmp_path / "two")
    two.log("u-0").append([T0])
    two.finish()
    (tmp_path / "moved").rename(two.path / "__transaction_state-0")
    pairs = [
        SnapshotPaths(source=one.path, target=tmp_path / "copy-one"),
        SnapshotPaths(source=two.path, target=tmp_path / "copy-two"),
    ]
    take_snapshot(LOCAL, pairs, SnapshotOptions(moment=Moment(at_ms=AT), now_ms=AT))
    assert records(tmp_path / "copy-one", DATA)[-1].key == COMMIT
