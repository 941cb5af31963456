"""Transactions through the public API: both isolation levels, all endings, crashes, and a list as their model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import tidelog
from cli.runner import rows
from conftest import GoldenFactory
from golden_sets import SCENARIOS
from tidelog import (
    ClosedError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    LogConfig,
    RecordTooLargeError,
    StorageError,
)
from tidelog.kernel import scan_batches
from tidelog.record.control import EndTransactionMarker
from tidelog.storage.index.transaction_index import TransactionIndexReader
from tidelog.storage.manager.producers.producer_sessions import FIRST_PRODUCER_ID


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "events-0"


@pytest.fixture
def log(path: Path) -> Iterator[tidelog.Log]:
    with tidelog.open_log(path) as log:
        yield log


def ends_with(
    kind: type[BaseException], match: str | None = None
) -> AbstractContextManager[pytest.ExceptionInfo[BaseException], bool]:
    """Expect an error from a transaction's block of any number of statements."""
    return pytest.raises(kind, match=match)


def values(log: tidelog.Log, isolation: str = "read_committed") -> list[bytes | None]:
    return [record.value for record in log.records(isolation=isolation)]  # type: ignore[arg-type]


def last_stable(log: tidelog.Log) -> int:
    return log.offsets().last_stable.message_offset


class TestOneLog:
    def test_commit(self, log: tidelog.Log) -> None:
        log.append(b"before")
        with log.transaction() as transaction:
            assert transaction.append(b"one", b"k", [("h", b"1")]) == 1
            assert transaction.append_batch([b"two", b"three"]) == range(2, 4)
            log.append(b"beside")
            assert values(log) == [b"before"]
            assert values(log, "read_uncommitted") == [b"before", b"one", b"two", b"three", b"beside"]
            assert last_stable(log) == 1
        assert values(log) == [b"before", b"one", b"two", b"three", b"beside"]
        assert last_stable(log) == log.offsets().log_end.message_offset == 6
        assert log.append(b"after") == 6

    def test_abort(self, log: tidelog.Log, path: Path) -> None:
        with ends_with(KeyError), log.transaction() as transaction:
            transaction.append_batch([b"gone", b"gone too"])
            log.append(b"beside")
            raise KeyError
        assert values(log) == [b"beside"]
        assert values(log, "read_uncommitted") == [b"gone", b"gone too", b"beside"]
        index = path / "00000000000000000000.txnindex"
        (entry,) = TransactionIndexReader(index.read_bytes(), 0, path=index)
        assert tuple(entry) == (FIRST_PRODUCER_ID, 0, 3, 4)
        with log.transaction() as transaction:
            transaction.append(b"again")
        assert values(log) == [b"beside", b"again"]

    def test_what_lies_in_the_file(self, log: tidelog.Log, path: Path) -> None:
        with log.producer() as producer:
            producer.append(b"alone")
            with producer.transaction() as transaction:
                assert transaction.producer_id == producer.producer_id
                transaction.append_batch([b"a", b"b"])
            with producer.transaction() as transaction:
                transaction.append(b"c")
                transaction.abort()
        data = (path / "00000000000000000000.log").read_bytes()
        table = scan_batches(data)
        assert table.is_transactional.tolist() == [False, True, True, True, True]
        assert table.is_control.tolist() == [False, False, True, False, True]
        assert table.base_sequence.tolist() == [0, 1, -1, 3, -1]
        assert table.producer_epoch.tolist() == [0] * 5
        markers = _control_records(path)
        assert [(marker.committed, marker.coordinator_epoch) for marker in markers] == [(True, 0), (False, 0)]

    def test_an_empty_one_leaves_nothing(self, log: tidelog.Log) -> None:
        with log.transaction():
            pass
        with pytest.raises(KeyError), log.transaction():
            raise KeyError
        assert log.offsets().log_end.message_offset == 0

    def test_one_id_serves_one_after_the_other(self, log: tidelog.Log) -> None:
        ids = []
        for number in range(3):
            with log.transaction() as transaction:
                transaction.append(b"%d" % number)
                ids.append(transaction.producer_id)
        with log.transaction() as first, log.transaction() as second:
            first.append(b"first")
            second.append(b"second")
            assert first.producer_id != second.producer_id
            second.abort()
            assert last_stable(log) == 6
        assert ids == [FIRST_PRODUCER_ID] * 3
        assert values(log) == [b"0", b"1", b"2", b"first"]

    def test_over_rolls_and_codecs(self, path: Path) -> None:
        config = LogConfig(segment_bytes=2_000, segment_index_bytes=1_000, compression_type="lz4")
        with tidelog.open_log(path, config=config) as log:
            for number in range(6):
                with log.transaction() as transaction:
                    for part in range(10):
                        transaction.append_batch([b"%d-%d-%s" % (number, part, os.urandom(50))] * 2)
                    if number % 2:
                        transaction.abort()
            assert len(list(path.glob("*.log"))) > 4
            assert {value[:1] for value in values(log) if value} == {b"0", b"2", b"4"}
            assert len(values(log)) == 60
        with tidelog.open_log(path, read_only=True) as log:
            assert len(values(log)) == 60
            assert len(values(log, "read_uncommitted")) == 120


class TestMisuse:
    def test_a_swallowed_error_does_not_commit(self, path: Path) -> None:
        with tidelog.open_log(path, config=LogConfig(max_message_bytes=1_000)) as log:
            swallowed = ends_with(InvalidTransactionStateError, "because one of its appends failed: a batch")
            with swallowed as caught, log.transaction() as transaction:
                transaction.append(b"fine")
                with pytest.raises(RecordTooLargeError):
                    transaction.append(b"x" * 2_000)
                transaction.append(b"fine too")
            assert isinstance(caught.value.__cause__, RecordTooLargeError)
            assert isinstance(caught.value, InvalidTransactionStateError)
            assert caught.value.code == 48
            assert values(log) == []
            assert last_stable(log) == 3

    def test_one_at_a_time(self, log: tidelog.Log) -> None:
        producer = log.producer()
        with producer.transaction() as transaction:
            transaction.append(b"in it")
            with pytest.raises(InvalidTransactionStateError, match="append through it"):
                producer.append(b"outside")
            with pytest.raises(InvalidTransactionStateError, match="has an open transaction"):
                producer.transaction().__enter__()
        producer.append(b"outside")
        assert values(log) == [b"in it", b"outside"]

    def test_when_it_is_not_open(self, log: tidelog.Log) -> None:
        transaction = log.transaction()
        for call in (lambda: transaction.append(b"x"), transaction.commit, transaction.abort):
            with pytest.raises(InvalidTransactionStateError, match="begins with its `with`"):
                call()
        with transaction:
            transaction.append(b"x")
            transaction.commit()
            for call in (lambda: transaction.append(b"y"), transaction.commit, transaction.abort):
                with pytest.raises(InvalidTransactionStateError, match="is over: committed"):
                    call()
        with pytest.raises(InvalidTransactionStateError, match="begins once"):
            transaction.__enter__()
        with log.transaction() as aborted:
            aborted.append(b"y")
            aborted.abort()
            aborted.abort()
            with pytest.raises(InvalidTransactionStateError, match="is over: aborted"):
                aborted.commit()
        assert values(log) == [b"x"]

    def test_a_new_holder_of_the_id_ends_it(self, log: tidelog.Log, path: Path) -> None:
        old = log.producer()
        with (
            ends_with(InvalidProducerEpochError, "is fenced: a newer producer uses the id"),
            old.transaction() as transaction,
        ):
            transaction.append(b"old")
            new = log.producer(old.producer_id)
            with pytest.raises(InvalidProducerEpochError):
                transaction.append(b"late")
            with new.transaction() as newer:
                newer.append(b"new")
        assert values(log) == [b"new"]
        table = scan_batches((path / "00000000000000000000.log").read_bytes())
        assert table.producer_epoch.tolist() == [0, 1, 1, 1]
        assert table.base_sequence.tolist() == [0, -1, 0, -1]

    def test_closing_aborts(self, path: Path) -> None:
        log = tidelog.open_log(path)
        closing = ends_with(InvalidTransactionStateError, "aborted by closing events-0")
        with closing, log.transaction() as transaction:
            transaction.append(b"x")
            log.close()
            with pytest.raises(ClosedError):
                transaction.append(b"y")
        with tidelog.open_log(path) as log:
            assert values(log) == []
            assert last_stable(log) == 2
            with ends_with(ClosedError), log.producer() as producer, producer.transaction() as transaction:
                transaction.append(b"z")
                producer.close()
            assert last_stable(log) == 4

    def test_the_error_of_the_block_comes_out(self, log: tidelog.Log) -> None:
        with ends_with(KeyError) as caught, log.transaction() as transaction:
            transaction.append(b"x")
            log.producer(transaction.producer_id)
            raise KeyError
        assert not hasattr(caught.value, "__notes__")  # the new holder aborted it


class TestSeveralLogs:
    def test_all_or_nothing(self, tmp_path: Path) -> None:
        with tidelog.open_directory([tmp_path / "a", tmp_path / "b"]) as directory:
            logs = [directory.log("t", number) for number in range(3)]
            with directory.transaction() as transaction:
                for number, log in enumerate(logs):
                    assert transaction.append(log, b"%d" % number) == 0
                    assert transaction.append_batch(log, [b"x", b"y"]) == range(1, 3)
                assert [values(log) for log in logs] == [[]] * 3
            assert [values(log) for log in logs] == [[b"%d" % number, b"x", b"y"] for number in range(3)]
            with ends_with(KeyError), directory.transaction() as transaction:
                transaction.append(logs[0], b"gone")
                transaction.append(logs[2], b"gone")
                raise KeyError
            assert [len(values(log)) for log in logs] == [3, 3, 3]
            assert [log.offsets().log_end.message_offset for log in logs] == [6, 4, 6]
            with logs[1].transaction() as single:
                single.append(b"of one log")
            assert values(logs[1])[-1] == b"of one log"

    def test_closing_one_log_aborts_in_all(self, tmp_path: Path) -> None:
        with tidelog.open_directory(tmp_path) as directory:
            logs = [directory.log("t", number) for number in range(2)]
            with ends_with(InvalidTransactionStateError, "closing t-0"), directory.transaction() as open_one:
                for log in logs:
                    open_one.append(log, b"x")
                logs[0].close()
            assert last_stable(logs[1]) == 2
            assert values(logs[1]) == values(directory.log("t", 0)) == []
            with ends_with(ClosedError), directory.transaction() as open_one:
                open_one.append(logs[1], b"x")
                directory.close()

    def test_a_marker_that_cannot_be_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The other logs get their markers. A new producer with the id ends the transaction in the failed log."""
        directory = tidelog.open_directory(tmp_path)
        logs = [directory.log("t", number) for number in range(3)]
        producer = directory.producer()
        full = logs[1]._engine()
        whole = full.append_as_leader

        def failing(*args: object, **named: object) -> object:
            raise StorageError("the disk is full", path=full.directory)

        failed = ends_with(StorageError, "committed, but still open in t-1: no marker could be written")
        with failed as caught, producer.transaction() as transaction:
            for log in logs:
                transaction.append(log, b"x")
            monkeypatch.setattr(full, "append_as_leader", failing)
        assert isinstance(caught.value, StorageError)
        assert caught.value.path == str(full.directory)
        assert [values(log) for log in logs] == [[b"x"], [], [b"x"]]
        with pytest.raises(InvalidTransactionStateError, match="still open in t-1"):
            producer.append(logs[0], b"y")
        monkeypatch.setattr(full, "append_as_leader", whole)
        again = directory.producer(producer.producer_id)
        assert [last_stable(log) for log in logs] == [2, 2, 2]
        assert again.append(logs[0], b"y") == 2
        directory.close()

    @pytest.mark.parametrize("opening", ["directory", "log"])
    def test_a_killed_process(self, tmp_path: Path, opening: str) -> None:
        """The open transaction limits read_committed readers, is listed with its id, and ends when the id returns."""
        script = f"""
import os, signal, tidelog
directory = tidelog.open_directory({str(tmp_path)!r})
logs = [directory.log("t", number) for number in range(3)]
with directory.transaction() as transaction:
    for log in logs:
        transaction.append(log, b"committed")
with directory.transaction() as transaction:
    transaction.append_batch(logs[0], [b"open"] * 2)
    transaction.append(logs[1], b"open")
    logs[1].append(b"beside")
    print(transaction.producer_id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200)
        assert done.returncode == -signal.SIGKILL
        producer_id = int(done.stdout)
        shown = rows("transactions", tmp_path)
        assert [(row["partition"], row["producer_id"], row["start_offset"], row["records"]) for row in shown] == [
            (0, producer_id, 2, 2),
            (1, producer_id, 2, 1),
        ]
        with tidelog.open_directory(tmp_path, read_only=True) as directory:
            assert [values(directory.log("t", number)) for number in range(3)] == [[b"committed"]] * 3
        if opening == "log":
            with tidelog.open_log(tmp_path / "t-1") as log:
                assert last_stable(log) == 2
                assert log.producer(producer_id).epoch == 1
                assert values(log) == [b"committed", b"beside"]
            assert [row["partition"] for row in rows("transactions", tmp_path)] == [0]
        with tidelog.open_directory(tmp_path) as directory:
            producer = directory.producer(producer_id)
            assert producer.epoch == (2 if opening == "log" else 1)
            assert rows("transactions", tmp_path) == []
            with producer.transaction() as transaction:
                transaction.append(directory.log("t", 0), b"again")
        with tidelog.open_directory(tmp_path, read_only=True) as directory:
            assert values(directory.log("t", 0)) == [b"committed", b"again"]
            assert values(directory.log("t", 1)) == [b"committed", b"beside"]

    def test_a_crash_between_two_markers(self, tmp_path: Path) -> None:
        """The first log is committed. The second is open and then aborted, as DirectoryTransaction's help describes."""
        script = f"""
import os, signal, tidelog
directory = tidelog.open_directory({str(tmp_path)!r})
logs = [directory.log("t", number) for number in range(2)]
with directory.producer(9) as producer, producer.transaction() as transaction:
    for log in logs:
        transaction.append(log, b"x")
    logs[1]._engine().append_as_leader = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
"""
        assert subprocess.run([sys.executable, "-c", script], timeout=200).returncode == -signal.SIGKILL
        assert [row["partition"] for row in rows("transactions", tmp_path)] == [1]
        with tidelog.open_directory(tmp_path) as directory:
            assert directory.producer(9).epoch == 1
            assert [values(directory.log("t", number)) for number in range(2)] == [[b"x"], []]
        assert rows("transactions", tmp_path) == []

    def test_what_a_broker_left_open(self, golden_copy: GoldenFactory) -> None:
        """A real transaction ends without its coordinator, as with kafka-transactions.sh: the epochs do not change."""
        path = golden_copy(SCENARIOS)
        (row,) = rows("transactions", path, "--now", 1_795_216_675_768)
        with tidelog.open_directory(path) as directory:
            log = directory.log("txn", 0)
            assert last_stable(log) == row["start_offset"]
            committed = values(log)
            with directory.producer(row["producer_id"], epoch=row["producer_epoch"]) as producer:
                assert producer.next_sequence(log) > 0
                assert last_stable(log) == log.offsets().log_end.message_offset == row["log_end"] + 1
                assert values(log)[: len(committed)] == committed
        assert rows("transactions", path) == []

    def test_threads_share_a_transaction_and_a_directory(self, tmp_path: Path) -> None:
        with tidelog.open_directory(tmp_path) as directory:
            logs = [directory.log("t", number) for number in range(2)]
            failures: list[BaseException] = []

            def run(name: int) -> None:
                try:
                    for number in range(20):
                        with directory.transaction() as transaction:
                            for log in logs:
                                transaction.append(log, b"%d-%d" % (name, number))
                            if number % 3 == 0:
                                transaction.abort()
                except BaseException as error:
                    failures.append(error)

            threads = [threading.Thread(target=run, args=(name,)) for name in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failures == []
            expected = sorted(b"%d-%d" % (name, number) for name in range(4) for number in range(20) if number % 3)
            for log in logs:
                assert sorted(value or b"" for value in values(log)) == expected
                assert len(values(log, "read_uncommitted")) == 80


def _control_records(path: Path) -> list[EndTransactionMarker]:
    from tidelog.storage.producer import read_marker

    data = (path / "00000000000000000000.log").read_bytes()
    table = scan_batches(data)
    found = [read_marker(data[row.position : row.position + row.size]) for row in table.rows() if row.attributes & 0x20]
    return [record.marker for record in found if record is not None]
