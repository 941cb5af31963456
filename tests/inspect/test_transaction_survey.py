"""Verdicts on open transactions by the coordinators' records, also while a broker changes the log directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import GoldenFactory
from coordinator_maker import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    State,
    state_record,
    write_states,
)
from golden_sets import SCENARIOS
from log_maker import BASE_TIME, batch, data, marker, plain, write_segment
from tidelog.inspect.coordinator_log import CoordinatorLog, read_coordinator_log
from tidelog.inspect.transaction_survey import (
    HANGING_AFTER_MS,
    Judgement,
    Survey,
    TransactionVerdict,
    judge,
    survey_transactions,
)
from tidelog.inspect.transactions import open_transactions
from tidelog.model import CorruptRecordError, TopicPartition
from tidelog.storage.fs import LOCAL, File, FileSystem, ReadOnlyFileSystem

LATER = BASE_TIME + HANGING_AFTER_MS + 10_000
WHOLE = CoordinatorLog(partitions=frozenset({0}), partition_count=1)


def survey(root: Path, now_ms: int = LATER, fs: FileSystem = LOCAL, paths: Sequence[Path] = ()) -> Survey:
    open_ = [transaction for part in open_transactions(fs, root) for transaction in part.open]
    return survey_transactions(fs, paths or [root], open_, now_ms=now_ms)


def the_one(root: Path, now_ms: int = LATER) -> Judgement:
    (judged,) = survey(root, now_ms).transactions
    return judged.judgement


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write ``t-0`` with an open transaction of producer 7: three records from offset 10 on."""
    write_segment(tmp_path / "t-0", 0, [plain(0, 10), data(10, 3, timestamp=BASE_TIME)])
    return tmp_path


CASES = [
    (
        [State(7, ONGOING, (0,), started=BASE_TIME)],
        BASE_TIME + 60_000,
        TransactionVerdict.OPEN,
        "its coordinator knows it",
    ),
    (
        [State(7, ONGOING, (0, 1), started=BASE_TIME)],
        BASE_TIME + 60_001,
        TransactionVerdict.OVERDUE,
        "past its timeout",
    ),
    ([State(7, PREPARE_COMMIT, (0,), started=BASE_TIME)], LATER, TransactionVerdict.OPEN, "about to commit"),
    ([State(7, PREPARE_ABORT, (0,), started=BASE_TIME)], LATER, TransactionVerdict.OPEN, "about to abort"),
    ([State(7, ONGOING, (1, 2), started=BASE_TIME)], BASE_TIME, TransactionVerdict.HANGING, "Ongoing with t-1, t-2"),
    ([State(7, ONGOING, (0,)), State(7, COMPLETE_COMMIT)], BASE_TIME, TransactionVerdict.HANGING, "CompleteCommit"),
    ([State(7, COMPLETE_ABORT, epoch=3)], LATER, TransactionVerdict.HANGING, "CompleteAbort, producer epoch 3"),
    ([State(7, EMPTY)], LATER, TransactionVerdict.HANGING, "Empty"),
    ([State(8, ONGOING, (0,), "other")], BASE_TIME, TransactionVerdict.OPEN, "log is not here"),
    ([State(8, ONGOING, (0,), "other")], LATER, TransactionVerdict.SUSPECTED, "silent longer"),
    ([State(7, ONGOING, (0,)), State(9, ONGOING, (0,))], LATER, TransactionVerdict.SUSPECTED, "log is not here"),
    ([State(7, ONGOING, (0,)), State(7, None)], LATER, TransactionVerdict.SUSPECTED, "log is not here"),
    ([], BASE_TIME + 2 + HANGING_AFTER_MS, TransactionVerdict.OPEN, "log is not here"),
    ([], BASE_TIME + 3 + HANGING_AFTER_MS, TransactionVerdict.SUSPECTED, "silent longer"),
]


@pytest.mark.parametrize(("states", "now_ms", "verdict", "reason"), CASES)
def test_the_table(root: Path, states: list[State], now_ms: int, verdict: TransactionVerdict, reason: str) -> None:
    if states:
        write_states(root, states)
    found = the_one(root, now_ms)
    assert found.verdict is verdict
    assert reason in found.reason
    assert (found.known is None) == ("log is not here" in found.reason)
    assert verdict.hangs == (verdict in (TransactionVerdict.HANGING, TransactionVerdict.SUSPECTED))


def test_a_producer_that_no_coordinator_knows(root: Path) -> None:
    ((transaction,),) = [part.open for part in open_transactions(LOCAL, root)]
    assert judge(transaction, WHOLE, now_ms=BASE_TIME).verdict is TransactionVerdict.HANGING
    for parts in (
        CoordinatorLog(partitions=frozenset({0}), partition_count=2),
        CoordinatorLog(partitions=frozenset({0})),
        CoordinatorLog(partitions=frozenset({0}), partition_count=1, undecoded=1),
        CoordinatorLog(partitions=frozenset({0}), partition_count=1, errors=(CorruptRecordError("x"),)),
    ):
        assert judge(transaction, parts, now_ms=BASE_TIME).verdict is TransactionVerdict.OPEN


def test_real_coordinators(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(SCENARIOS)
    began = 1_795_216_675_768
    found = the_one(directory, began + 900_000)
    assert found.verdict is TransactionVerdict.OPEN
    assert found.known is not None
    assert (found.known.name, found.known.state, found.known.timeout_ms) == ("golden-c", "Ongoing", 900_000)
    assert the_one(directory, began + 900_001).verdict is TransactionVerdict.OVERDUE
    log = read_coordinator_log(LOCAL, directory)
    assert (log.is_whole, log.partition_count, len(log.ids)) == (True, 4, 3)
    # The coordinator now knows no producer. By the metadata, all partitions of its topic are here.
    (directory / "__transaction_state-3" / f"{0:020d}.log").write_bytes(b"")
    found = the_one(directory, began)
    assert (found.verdict, found.reason) == (TransactionVerdict.HANGING, "no coordinator knows its producer")
    for path in (directory / "__transaction_state-3").iterdir():
        path.unlink()
    (directory / "__transaction_state-3").rmdir()
    assert the_one(directory, began).verdict is TransactionVerdict.OPEN


def test_coordinators_of_the_same_cluster_in_another_directory(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    write_states(other, [State(7, COMPLETE_COMMIT)], partition=5)
    for directory, cluster in ((root, "c1"), (other, "c2")):
        (directory / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id=1\n")
    assert [each.judgement.verdict for each in survey(root, paths=[root, other]).transactions] == [
        TransactionVerdict.SUSPECTED
    ]
    (other / "meta.properties").write_text("version=1\ncluster.id=c1\nnode.id=1\n")
    assert [each.judgement.verdict for each in survey(root, paths=[root, other]).transactions] == [
        TransactionVerdict.HANGING
    ]


def test_of_two_replicas_the_one_further_on_counts(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    write_states(root, [State(7, ONGOING, (0,), started=LATER)])
    write_states(other, [State(7, ONGOING, (0,)), State(7, COMPLETE_COMMIT)])
    for directory in (root, other):
        (directory / "meta.properties").write_text("version=1\ncluster.id=c1\nnode.id=1\n")
    for paths in ([root, other], [other, root]):
        (judged,) = survey(root, paths=paths).transactions
        assert judged.judgement.verdict is TransactionVerdict.HANGING


def test_records_of_coordinators_that_do_not_decode(tmp_path: Path) -> None:
    """A value of a newer version also invalidates earlier records of its transactional id."""
    records = [
        state_record(0, State(7, ONGOING, (0,))),
        batch(1, [b"\0\x63" + bytes(30)], key=b"\0\0\0\3app"),
        batch(2, [b"\0\0"], key=b"\0\x63"),
        batch(3, [b"x"], key=None),
    ]
    write_segment(tmp_path / "__transaction_state-0", 0, records)
    found = read_coordinator_log(LOCAL, tmp_path)
    assert (found.ids, found.undecoded, found.partitions) == ((), 2, frozenset({0}))


@given(st.lists(st.tuples(st.binary(max_size=40), st.none() | st.binary(max_size=60)), min_size=1, max_size=5))
def test_any_bytes_are_read_or_counted(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[bytes, bytes | None]]
) -> None:
    root = tmp_path_factory.mktemp("any")
    batches = [
        batch(offset, [None if value is None else b"\0\1" + value], key=b"\0\0" + key)
        for offset, (key, value) in enumerate(records)
    ]
    write_segment(root / "__transaction_state-0", 0, batches)
    found = read_coordinator_log(LOCAL, root)
    assert not found.errors
    assert len(found.ids) + found.undecoded <= len(records)


def test_a_damaged_coordinator_log_is_told(root: Path) -> None:
    path = write_states(root, [State(7, ONGOING, (0,)), State(7, COMPLETE_COMMIT)])
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    (log,) = (read_coordinator_log(LOCAL, root),)
    assert [error.path for error in log.errors] == [str(path)]
    assert not log.partitions


class HeldDisk:
    """A file system whose directories all seem locked. ``meanwhile`` runs when a coordinator's log is opened."""

    def __init__(self) -> None:
        self._inner = ReadOnlyFileSystem(LOCAL)
        self.meanwhile: Callable[[], None] | None = None

    def lock_holder(self, path: Path) -> int | None:
        return 4711

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:
        meanwhile = self.meanwhile
        if meanwhile is not None and path.parent.name.startswith("__transaction_state"):
            self.meanwhile = None
            meanwhile()
        return self._inner.open(path, write=write, create=create)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def survey_beside_an_owner(root: Path, meanwhile: Callable[[], None] | None = None) -> Survey:
    disk = HeldDisk()
    open_ = [transaction for part in open_transactions(disk, root) for transaction in part.open]  # type: ignore[arg-type]
    disk.meanwhile = meanwhile
    return survey_transactions(disk, [root], open_, now_ms=LATER)  # type: ignore[arg-type]


def test_beside_an_owner_a_transaction_may_end_meanwhile(root: Path) -> None:
    """The partition is read before the marker arrives, the coordinator's log after it: no transaction hangs."""
    states = write_states(root, [State(7, ONGOING, (0,), started=BASE_TIME)])

    def end() -> None:
        with (root / "t-0" / f"{0:020d}.log").open("ab") as log:
            log.write(marker(13, committed=True))
        with states.open("ab") as log:
            log.write(state_record(1, State(7, COMPLETE_COMMIT)))

    found = survey_beside_an_owner(root, end)
    assert found.transactions == ()
    assert [known.state for log in found.coordinators for known in log.ids] == ["CompleteCommit"]


def test_beside_an_owner_one_that_hangs_is_confirmed(root: Path) -> None:
    write_states(root, [State(7, COMPLETE_COMMIT)])
    (judged,) = survey_beside_an_owner(root).transactions
    assert judged.judgement.verdict is TransactionVerdict.HANGING


def test_without_transactions_no_coordinator_is_asked(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0, 10)])
    write_states(tmp_path, [State(7, ONGOING, (0,))])
    assert survey(tmp_path) == Survey()


def test_partitions_of_a_transactional_id(tmp_path: Path) -> None:
    write_states(tmp_path, [State(7, ONGOING, (0, 2))], partition=3)
    (known,) = read_coordinator_log(LOCAL, tmp_path).ids
    assert known.partitions == {TopicPartition("t", 0), TopicPartition("t", 2)}
    assert (known.source, known.source_offset) == (TopicPartition("__transaction_state", 3), 0)
    assert known.start_timestamp is None
