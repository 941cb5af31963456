"""Commits of staged files: a batch is committed fully and once, by any process, or refused before the decision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from log_maker import BASE_TIME, plain
from tidelog import open_directory, open_log
from tidelog.model import (
    CorruptRecordError,
    DirectoryError,
    FileMissingError,
    LockedError,
    RecordTooLargeError,
    TidelogError,
    TopicPartition,
)
from tidelog.storage.checkpoint import RECOVERY_POINT_CHECKPOINT, CleanShutdownFile, OffsetCheckpoint
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.recovery.directory_recovery import recover
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions, plan_directory
from tidelog.storage.manager.staged.sink_checkpoint import read_committed_batches
from tidelog.storage.manager.staged.staged_commit import (
    INTENT_FILE,
    PREFIX,
    StagedCommit,
    StagedFile,
    StagedName,
    read_intent,
    write_intent,
)
from tidelog.storage.manager.writable.commit import CommitResult, commit_staged
from tidelog.storage.manager.writable.writable_directory import WritableDirectory
from tidelog.testing import ManualClock

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CLOCK = ManualClock(BASE_TIME)


class Home:
    """A log directory. Each file of ``stage`` has one batch with the given number of records."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attempts = 0

    def stage(
        self, files: dict[TopicPartition, tuple[int, ...]], *, batch: int | None = 0, query: str = "q"
    ) -> StagedCommit:
        self.path.mkdir(exist_ok=True)
        self.attempts += 1
        named = {}
        number = 0
        for partition, counts in files.items():
            staged = []
            for count in counts:
                name = str(StagedName(query, batch, f"attempt-{self.attempts}", number))
                number += 1
                (self.path / name).write_bytes(plain(0, count))
                staged.append(StagedFile(name, len(plain(0, count))))
            named[partition] = tuple(staged)
        return StagedCommit(query=query, batch=batch, files=named)

    def commit(self, commit: StagedCommit, config: LogConfig | None = None) -> CommitResult:
        return commit_staged(LOCAL, self.path, commit, clock=CLOCK, config=config)

    def records(self, partition: TopicPartition = T0) -> int:
        """Return the number of records, and check that the offsets have no gaps."""
        with open_log(self.path / partition.directory_name, read_only=True) as log:
            offsets = [record.offset for record in log.records()]
        assert offsets == list(range(len(offsets)))
        return len(offsets)

    @property
    def staged(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir() if path.name.startswith(PREFIX))

    @property
    def is_clean(self) -> bool:
        return CleanShutdownFile(LOCAL, self.path).exists()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "logs")


def test_a_batch_goes_into_its_logs_in_order(home: Home) -> None:
    result = home.commit(home.stage({T0: (3, 4), T1: (5,)}))
    assert result == CommitResult(offsets={T0: range(7), T1: range(5)}, was_done=False)
    assert (home.records(T0), home.records(T1)) == (7, 5)
    assert home.staged == []
    assert read_intent(LOCAL, home.path) is None
    assert read_committed_batches(LOCAL, home.path) == {"q": 0}
    assert OffsetCheckpoint.read(LOCAL, home.path / RECOVERY_POINT_CHECKPOINT) == {T0: 7, T1: 5}
    assert home.is_clean
    again = home.commit(home.stage({T1: (2,)}, batch=1))
    assert again.offsets == {T1: range(5, 7)}
    assert read_committed_batches(LOCAL, home.path) == {"q": 1}


def test_a_batch_that_was_committed_is_not_committed_again(home: Home) -> None:
    home.commit(home.stage({T0: (3,)}, batch=4))
    for batch in (4, 3):
        assert home.commit(home.stage({T0: (3,)}, batch=batch)) == CommitResult(offsets={}, was_done=True)
        assert home.staged == []
    assert home.records() == 3
    assert home.commit(home.stage({T0: (2,)}, batch=4, query="another")).offsets == {T0: range(3, 5)}
    assert read_committed_batches(LOCAL, home.path) == {"q": 4, "another": 4}


def test_what_is_no_streams_is_committed_each_time(home: Home) -> None:
    for _ in range(2):
        assert not home.commit(home.stage({T0: (3,)}, batch=None)).was_done
    assert home.records() == 6
    assert read_committed_batches(LOCAL, home.path) == {}


def test_a_batch_of_nothing_is_recorded_too(home: Home) -> None:
    assert home.commit(home.stage({}, batch=2)).offsets == {}
    assert home.commit(home.stage({T0: (1,)}, batch=2)).was_done


def test_what_dead_attempts_left_goes_with_the_next_batch(home: Home) -> None:
    home.stage({T0: (9,)}, batch=0)
    home.stage({T0: (9,)}, batch=1)
    others = home.stage({T0: (9,)}, batch=0, query="other").names + home.stage({T0: (9,)}, batch=2).names
    home.commit(home.stage({T0: (3,)}, batch=1))
    assert home.staged == sorted(others)
    assert home.records() == 3


def test_an_undecided_batch_leaves_no_trace_in_the_logs(home: Home) -> None:
    home.commit(home.stage({T0: (3,)}, batch=0))
    commit = home.stage({T0: (1,), T1: (2,)}, batch=1)
    last = home.path / commit.names[-1]
    data = bytearray(last.read_bytes())

    def refused(error: type[TidelogError], config: LogConfig | None = None) -> None:
        with pytest.raises(error):
            home.commit(commit, config)
        assert home.records() == 3
        assert read_intent(LOCAL, home.path) is None
        assert read_committed_batches(LOCAL, home.path) == {"q": 0}
        assert home.is_clean

    refused(RecordTooLargeError, LogConfig(max_message_bytes=100))
    last.write_bytes(data[:-1])
    refused(CorruptRecordError)
    last.write_bytes(data[:-1] + b"?")
    refused(CorruptRecordError)
    last.write_bytes(data * 2)
    refused(CorruptRecordError)
    last.unlink()
    refused(FileMissingError)
    last.write_bytes(data)
    assert home.commit(commit).offsets == {T0: range(3, 4), T1: range(2)}


def test_the_metadatas_log_takes_none(home: Home) -> None:
    commit = home.stage({TopicPartition("__cluster_metadata", 0): (1,)})
    with pytest.raises(DirectoryError):
        home.commit(commit)
    assert read_intent(LOCAL, home.path) is None


def test_a_directory_that_another_has_is_left_alone(home: Home) -> None:
    commit = home.stage({T0: (1,)})
    with open_directory(home.path), pytest.raises(LockedError):
        home.commit(commit)
    assert home.staged == commit.names
    assert home.commit(commit).offsets == {T0: range(1)}


def open_for_writing(home: Home) -> None:
    open_directory(home.path).close()


def keep_house(home: Home) -> None:
    open_directory(home.path, housekeeping=True).close()


def open_a_log(home: Home) -> None:
    open_log(home.path / "other-0").close()


def recover_it(home: Home) -> None:
    recover(home.path, now_ms=BASE_TIME)


def commit_the_next(home: Home) -> None:
    home.commit(home.stage({}, batch=8))


@pytest.mark.parametrize("finish", [open_for_writing, keep_house, open_a_log, recover_it, commit_the_next])
@pytest.mark.parametrize("is_begun", [False, True], ids=["decided", "begun"])
def test_whoever_comes_next_carries_out_what_was_decided(
    home: Home, finish: Callable[[Home], None], is_begun: bool
) -> None:
    home.commit(home.stage({T0: (3,)}, batch=6))
    commit = home.stage({T0: (4, 5), T1: (2,)}, batch=7)
    if is_begun:
        directory = WritableDirectory(LOCAL, home.path, clock=CLOCK)
        directory.open_log(home.path / T0.directory_name).log.adopt(home.path / commit.names[0])
        directory.close()
    write_intent(LOCAL, home.path, commit)
    finish(home)
    assert (home.records(T0), home.records(T1)) == (12, 2)
    assert read_intent(LOCAL, home.path) is None
    assert read_committed_batches(LOCAL, home.path) == {"q": 8 if finish is commit_the_next else 7}
    assert home.staged == []


def test_readers_change_nothing(home: Home) -> None:
    home.commit(home.stage({T0: (3,)}, batch=6))
    write_intent(LOCAL, home.path, home.stage({T0: (4,)}, batch=7))
    before = {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()}
    with open_directory(home.path, read_only=True) as directory:
        assert directory.log("t", 0).offsets().log_end.message_offset == 3
    assert {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()} == before


def test_what_stands_in_the_way_is_told_and_the_intent_stays(home: Home) -> None:
    commit = home.stage({T0: (3,), T1: (2,)})
    write_intent(LOCAL, home.path, commit)
    last = home.path / commit.names[-1]
    data = last.read_bytes()
    last.write_bytes(data + data)
    with pytest.raises(CorruptRecordError, match="its writer reported"):
        open_directory(home.path)
    assert read_intent(LOCAL, home.path) == commit
    assert not home.is_clean
    last.write_bytes(data)
    open_directory(home.path).close()
    assert (home.records(T0), home.records(T1)) == (3, 2)


def test_a_plan_names_what_was_decided_and_what_nobody_committed(home: Home) -> None:
    commit = home.stage({T0: (3,)}, batch=7)
    left = home.stage({T0: (3,)}, batch=8)
    write_intent(LOCAL, home.path, commit)
    plan = plan_directory(LOCAL, home.path, RecoverOptions(now_ms=BASE_TIME))
    assert plan.commit == commit
    assert list(plan.staged) == left.names
    recover(home.path, now_ms=BASE_TIME)
    plan = plan_directory(LOCAL, home.path, RecoverOptions(now_ms=BASE_TIME))
    assert (plan.commit, plan.staged) == (None, ())
    assert INTENT_FILE not in [path.name for path in home.path.iterdir()]
