"""A disk failure: its directory goes offline with one log line, its logs report it, and the others continue."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from log_maker import batch
from storage.log.log_harness import fetch
from storage.manager.manager_home import NOW, DiskHome, ManagerHome, content, fill, values
from tidelog.model import ClosedError, DirectoryError, StorageError, TidelogError, TopicPartition
from tidelog.storage.fs.local_file import LocalFile
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.log_manager import LogManager
from tidelog.testing import DiskFault, ManualClock

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
HOUR_MS = 3_600_000
KAFKA_STORAGE_ERROR = 56


@pytest.fixture
def home() -> Iterator[DiskHome]:
    made = DiskHome()
    yield made
    made.stop()


def start(home: ManagerHome, **options: object) -> tuple[LogManager, PartitionLog, PartitionLog]:
    """Start a manager with T0 in the first directory and T1 in the second."""
    config = LogConfig(segment_index_bytes=4096, segment_bytes=1024, retention_ms=HOUR_MS)
    manager = home.start(**{"default_config": config} | options)
    logs = []
    for partition, path in zip((T0, T1), home.paths, strict=True):
        manager.prefer(partition, path)
        logs.append(manager.get_or_create(partition, is_new=True))
        fill(logs[-1], 10)
    return manager, logs[0], logs[1]


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def require_offline(home: ManagerHome, manager: LogManager, log: PartitionLog) -> None:
    """Check that the first directory and all its logs are offline, also ``log``, which a caller still has."""
    assert list(manager.offline) == [home.paths[0]]
    assert [directory.path for directory in manager.online] == [home.paths[1]]
    assert manager.partitions() == [T1]
    answers: list[Callable[[], object]] = [
        lambda: manager.require(T0),
        lambda: manager.get_or_create(T0),
        lambda: manager.delete(T0),
        lambda: manager.move(T0, home.paths[1]),
        lambda: manager.move(T1, home.paths[0]),
        lambda: fill(log, 1),
        lambda: fetch(log, 0),
        log.flush,
        lambda: log.truncate_to(3),
        lambda: log.offset_for_timestamp(0),
    ]
    for answer in answers:
        with pytest.raises(StorageError) as caught:
            answer()
        assert caught.value.code == KAFKA_STORAGE_ERROR


def require_others_go_on(home: ManagerHome, manager: LogManager, other: PartitionLog) -> None:
    fill(other, 1)
    other.flush()
    assert len(values(other)) == 110
    assert manager.get_or_create(T2, is_new=True).directory.parent == home.paths[1]
    manager.checkpoint_recovery_points()
    assert T1 in home.checkpoint(home.paths[1], "recovery-point-offset-checkpoint")


@pytest.mark.parametrize("is_noted_before", [True, False])
def test_a_move_away_from_a_disk_that_has_failed(
    home: DiskHome, monkeypatch: pytest.MonkeyPatch, is_noted_before: bool
) -> None:
    """The partition goes offline and stays offline, if the failure is noted before the move or during it."""
    manager, log, other = start(home)
    home.break_disk(home.paths[0])
    prefer = manager.prefer

    def fail() -> None:
        with pytest.raises(StorageError):
            fill(log, 1)

    def failing(partition: TopicPartition, path: Path) -> None:
        fail()
        prefer(partition, path)

    if is_noted_before:
        fail()
    else:
        monkeypatch.setattr(manager, "prefer", failing)
    with pytest.raises(StorageError) if is_noted_before else nullcontext():
        manager.move(T0, home.paths[1])
    monkeypatch.undo()
    require_offline(home, manager, log)
    require_others_go_on(home, manager, other)


def test_a_partition_is_offline_before_it_is_gone(home: DiskHome) -> None:
    """Readers take no lock, so the partition must not be unknown at any moment."""
    manager, log, _ = start(home)

    class Watched(dict[TopicPartition, PartitionLog]):
        def __delitem__(self, partition: TopicPartition) -> None:
            assert partition in manager._table.lost
            super().__delitem__(partition)

    manager._table.current = Watched(manager._table.current)
    _lose_first(home, manager)
    require_offline(home, manager, log)


def append_and_flush(log: PartitionLog) -> None:
    fill(log, 1)
    log.flush()


def truncate_and_wait(log: PartitionLog) -> None:
    log.truncate_to(5)
    assert isinstance(log._clock, ManualClock)
    log._clock.sleep_ms(61_000)


OPERATIONS: dict[str, tuple[set[str], Callable[[LogManager, PartitionLog], object]]] = {
    "append": ({"pwrite"}, lambda _, log: fill(log, 1)),
    "roll": ({"create"}, lambda _, log: log.roll()),
    "flush": ({"sync"}, lambda _, log: append_and_flush(log)),
    "sync_of_the_directory": ({"sync_dir"}, lambda _, log: log.flush(force=True)),
    "read": ({"pread"}, lambda _, log: fetch(log, 0)),
    "truncation": ({"truncate"}, lambda _, log: log.truncate_to(55)),
    "truncation_by_the_manager": ({"truncate"}, lambda manager, _: manager.truncate_to({T0: 55})),
    "retention": ({"rename"}, lambda _, log: (log.maybe_increment_log_start_offset(70), log.delete_old_segments())),
    "removal_of_segments": ({"remove"}, lambda _, log: truncate_and_wait(log)),
    "checkpoint": ({"rename"}, lambda manager, _: manager.checkpoint_recovery_points()),
    "log_starts": ({"sync"}, lambda manager, _: manager.checkpoint_log_starts()),
    "high_watermarks": ({"create"}, lambda manager, _: manager.checkpoint_high_watermarks()),
    "deletion": ({"rename"}, lambda manager, _: manager.delete(T0)),
    "topic_id": ({"make_dir", "create"}, lambda _, log: log.roll()),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_operation_fails(home: DiskHome, caplog: pytest.LogCaptureFixture, operation: str) -> None:
    manager, log, other = start(home)
    log.flush()
    before = content(log)
    calls, work = OPERATIONS[operation]
    fault = home.break_disk(home.paths[0], calls=calls)
    with suppress(StorageError):
        work(manager, log)
    home.clock.sleep_ms(0)
    require_offline(home, manager, log)
    require_others_go_on(home, manager, other)
    assert len(errors(caplog)) == 1
    assert errors(caplog)[0].startswith("The log directory /disk1 is offline because its disk failed: cannot")
    home.clock.sleep_ms(10 * 60_000)
    manager.shutdown()
    assert len(errors(caplog)) == 1
    home.disk.heal(fault)
    again = home.start()
    assert content(again.require(T1))
    if operation not in ("truncation", "truncation_by_the_manager", "removal_of_segments", "retention"):
        assert content(again.require(T0)).startswith(before)


def eio(home: DiskHome, path: Path) -> None:
    home.break_disk(path)


def full(home: DiskHome, path: Path) -> None:
    home.break_disk(path, errno.ENOSPC, {"pwrite", "create", "allocate", "make_dir"})


def read_only(home: DiskHome, path: Path) -> None:
    home.disk.remount_read_only(path)


def vanished(home: DiskHome, path: Path) -> None:
    home.disk.vanish(path)


@pytest.mark.parametrize("kind", [eio, full, read_only, vanished])
class TestEachKind:
    def test_while_it_is_written(
        self, home: DiskHome, caplog: pytest.LogCaptureFixture, kind: Callable[[DiskHome, Path], None]
    ) -> None:
        manager, log, other = start(home)
        log.flush()
        flushed = content(log)
        kind(home, home.paths[0])
        with pytest.raises(StorageError):
            fill(log, 1)
        home.clock.sleep_ms(0)
        require_offline(home, manager, log)
        require_others_go_on(home, manager, other)
        assert len(errors(caplog)) == 1
        home.disk.heal()
        home.start(paths=home.paths[:1]).shutdown()  # its lock is free
        manager.shutdown()
        again = home.start()
        assert content(again.require(T0)).startswith(flushed)
        assert len(values(again.require(T1))) == 110

    def test_while_nothing_is_done_the_next_checkpoint_finds_it(
        self, home: DiskHome, caplog: pytest.LogCaptureFixture, kind: Callable[[DiskHome, Path], None]
    ) -> None:
        manager, log, other = start(home)
        home.clock.sleep_ms(1000)
        kind(home, home.paths[0])
        home.clock.sleep_ms(120_000)
        require_offline(home, manager, log)
        require_others_go_on(home, manager, other)
        assert len(errors(caplog)) == 1

    def test_at_the_end(
        self, home: DiskHome, caplog: pytest.LogCaptureFixture, kind: Callable[[DiskHome, Path], None]
    ) -> None:
        manager, log, _ = start(home)
        log.flush()
        flushed = content(log)
        fill(log, 1)
        kind(home, home.paths[0])
        manager.shutdown()
        assert len(errors(caplog)) == 1
        home.disk.heal()
        assert not home.disk.exists(home.paths[0] / ".kafka_cleanshutdown")
        assert home.disk.exists(home.paths[1] / ".kafka_cleanshutdown")
        again = home.start()
        assert content(again.require(T0)).startswith(flushed)
        assert not again.require(T1).loaded.recovered

    @pytest.mark.parametrize("orderly", [True, False])
    def test_at_the_start(
        self,
        home: DiskHome,
        caplog: pytest.LogCaptureFixture,
        kind: Callable[[DiskHome, Path], None],
        orderly: bool,
    ) -> None:
        manager, log, _ = start(home)
        log.flush()
        flushed = content(log)
        if orderly:
            manager.shutdown()
        else:
            home.kill(manager)
        kind(home, home.paths[0])
        again = home.start()
        if kind is not full or not orderly:  # a full disk does not stop a start after a clean shutdown
            assert list(again.offline) == [home.paths[0]]
            assert len(errors(caplog)) == 1
        assert len(values(again.require(T1))) == 100
        again.shutdown()
        home.disk.heal()
        assert content(home.start().require(T0)) == flushed


class TestStart:
    @pytest.mark.parametrize(
        ("calls", "pattern"),
        [
            ({"list_names"}, "/disk1"),
            ({"lock"}, "/disk1/.lock"),
            ({"open"}, "*-checkpoint"),
            ({"list_directories"}, "/disk1"),
            ({"list_sizes"}, "/disk1/t-0"),
            ({"pread"}, "*.log"),
            ({"remove"}, "*cleanshutdown"),
        ],
    )
    @pytest.mark.parametrize("orderly", [True, False])
    def test_one_call_fails(
        self, home: DiskHome, caplog: pytest.LogCaptureFixture, calls: set[str], pattern: str, orderly: bool
    ) -> None:
        manager, log, _ = start(home)
        log.flush()
        before = content(log)
        manager.checkpoint_recovery_points()
        if orderly:
            manager.shutdown()
        else:
            home.kill(manager)
        fault = home.disk.fail(DiskFault(errno=errno.EIO, calls=calls, below=home.paths[0], pattern=pattern))
        again = home.start()
        assert again.partitions()[-1] == T1
        assert len(errors(caplog)) == len(again.offline)
        with pytest.raises(TidelogError) if again.offline else nullcontext():
            again.require(T0)
        fill(again.require(T1), 1)
        again.shutdown()
        home.disk.heal(fault)
        last = home.start()
        assert content(last.require(T0)) == before
        assert len(values(last.require(T1))) == 110

    def test_the_marker_stays_where_it_cannot_be_removed_and_nothing_is_written_there(self, home: DiskHome) -> None:
        manager, *_ = start(home)
        manager.shutdown()
        home.break_disk(home.paths[0], calls={"remove"})
        again = home.start()
        assert list(again.offline) == [home.paths[0]]
        calls = len([call for call in home.disk.calls if call.path.is_relative_to(home.paths[0])])
        home.clock.sleep_ms(HOUR_MS)
        again.shutdown()
        assert len([call for call in home.disk.calls if call.path.is_relative_to(home.paths[0])]) == calls

    def test_none_is_left(self, home: DiskHome) -> None:
        manager, *_ = start(home)
        manager.shutdown()
        home.break_disk(Path("/"), calls={"remove"})
        failed: list[bool] = []
        failing = home.make(on_all_failed=lambda: failed.append(True))
        with pytest.raises(DirectoryError, match=r"can be used: .* \(file /disk1/.*; .* \(file /disk2/"):
            failing.startup()
        assert failed == [True]


class TestCreating:
    def test_the_next_directory_is_taken(self, home: DiskHome, caplog: pytest.LogCaptureFixture) -> None:
        manager = home.start()
        home.break_disk(home.paths[0])
        assert manager.get_or_create(T0, is_new=True).directory.parent == home.paths[1]
        assert list(manager.offline) == [home.paths[0]]
        assert len(errors(caplog)) == 1

    @pytest.mark.parametrize("call", ["create", "sync_dir", "allocate"])
    def test_what_was_begun_there_is_set_aside_by_the_next_start(self, home: DiskHome, call: str) -> None:
        manager = home.start()
        home.break_disk(home.paths[0], calls={call})
        log = manager.get_or_create(T0, is_new=True)
        fill(log, 3)
        log.flush()
        home.clock.sleep_ms(120_000)
        manager.shutdown()
        home.disk.heal()
        again = home.start()
        assert len(values(again.require(T0))) == 30

    def test_all_have_failed(self, home: DiskHome, caplog: pytest.LogCaptureFixture) -> None:
        failed: list[bool] = []
        manager, log, other = start(home, on_all_failed=lambda: failed.append(True))
        for one, path in ((log, home.paths[0]), (other, home.paths[1])):
            assert failed == []
            home.break_disk(path)
            with pytest.raises(StorageError):
                fill(one, 1)
            home.clock.sleep_ms(0)
        assert failed == [True]
        assert "All log directories have failed: /disk1, /disk2" in caplog.text
        with pytest.raises(StorageError, match="No log directories available for t-2"):
            manager.get_or_create(T2, is_new=True)
        manager.shutdown()
        assert failed == [True]


def test_a_deleted_log_cannot_be_removed(home: DiskHome, caplog: pytest.LogCaptureFixture) -> None:
    manager, log, other = start(home)
    manager.delete(T0)
    fault = home.break_disk(home.paths[0], calls={"remove"})
    home.clock.sleep_ms(60_000)
    assert list(manager.offline) == [home.paths[0]]
    assert manager.deleted_logs == []
    assert len(errors(caplog)) == 1
    with pytest.raises(ClosedError):
        fetch(log, 0)
    require_others_go_on(home, manager, other)
    manager.shutdown()
    home.disk.heal(fault)
    home.start()
    home.clock.sleep_ms(120_000)
    assert not any(name.startswith("t-0") for name in home.disk.list_names(home.paths[0]))


def test_without_a_scheduler_the_next_change_finds_it(home: DiskHome) -> None:
    manager, log, _ = start(home, scheduler=None)
    home.break_disk(home.paths[0])
    with pytest.raises(StorageError):
        fill(log, 1)
    assert manager.offline == {}
    manager.handle_failures()
    require_offline(home, manager, log)


def test_deleting_many_logs_finds_it(home: DiskHome) -> None:
    manager, log, _ = start(home, scheduler=None)
    home.break_disk(home.paths[0])
    with pytest.raises(StorageError):
        fill(log, 1)
    assert list(manager.delete_all([T0, T1])) == [T0]
    assert list(manager.offline) == [home.paths[0]]
    assert manager.partitions() == []


def test_settings_reach_the_others(home: DiskHome) -> None:
    manager, log, other = start(home)
    home.break_disk(home.paths[0])
    with pytest.raises(StorageError):
        fill(log, 1)
    home.topic_settings["t"] = {"retention.ms": "7"}
    manager.update_topic_config("t")
    assert other.config.retention_ms == 7


def test_contents_are_no_disk(home: DiskHome, caplog: pytest.LogCaptureFixture) -> None:
    manager, log, _ = start(home)
    manager.prefer(T2, home.paths[0])
    fill(manager.get_or_create(T2), 1)
    manager.shutdown()
    with home.disk.open(log.directory / "partition.metadata", create=True) as file:
        file.truncate(0)
        file.pwrite(b"version: 7\n", 0)
    again = home.start()
    assert again.offline == {}
    assert list(again.damaged) == [log.directory]
    assert again.partitions() == [T1, T2]
    assert len(errors(caplog)) == 1


def test_the_log_goes_on_where_a_disk_ran_full_once(home: DiskHome) -> None:
    """A log can be loaded after its disk ran full during any step."""
    for room in range(0, 16 * 512, 512):
        home = DiskHome()
        manager, log, _ = start(home)
        log.flush()
        flushed = content(log)
        home.disk.free_bytes = room
        with suppress(StorageError):
            fill(log, 8)
            manager.checkpoint_recovery_points()
        home.clock.sleep_ms(0)
        acknowledged = log.end_offset
        manager.shutdown()
        home.disk.free_bytes = None
        again = home.start()
        assert content(again.require(T0)).startswith(flushed)
        assert 100 <= again.require(T0).end_offset <= acknowledged + 10
        fill(again.require(T0), 1)
        again.shutdown()


class TestUnderWay:
    """Operations in progress on the real disk, where a new file may get the descriptor number of a closed one."""

    def test_an_append_that_is_in_the_disk_is_waited_for(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        home = ManagerHome(tmp_path)
        manager, log, other = start(home)
        is_writing, may_write = threading.Event(), threading.Event()
        pwrite = LocalFile.pwrite

        def slow(self: LocalFile, data: bytes, position: int) -> int:
            if self.path.is_relative_to(log.directory) and threading.current_thread() is appender:
                is_writing.set()
                may_write.wait(60)
            return pwrite(self, data, position)

        monkeypatch.setattr(LocalFile, "pwrite", slow)
        appender = threading.Thread(target=lambda: fill(log, 1))
        appender.start()
        assert is_writing.wait(60)
        giver = threading.Thread(target=lambda: _lose_first(home, manager))
        giver.start()
        giver.join(0.2)
        assert giver.is_alive()
        may_write.set()
        giver.join(60)
        appender.join(60)
        require_offline(home, manager, log)
        require_others_go_on(home, manager, other)
        home.stop()

    def test_nothing_is_written_into_another_file(self, tmp_path: Path) -> None:
        for attempt in range(3):
            home = ManagerHome(tmp_path / str(attempt))
            manager, log, _ = start(home)
            acknowledged: list[int] = []

            def append(log: PartitionLog = log, acknowledged: list[int] = acknowledged) -> None:
                try:
                    while True:
                        one = batch(0, [b"lost"], timestamp=NOW)
                        acknowledged += log.append_as_leader(bytearray(one), leader_epoch=0).offsets
                except (StorageError, ClosedError):
                    pass

            threads = [threading.Thread(target=append) for _ in range(3)]
            for thread in threads:
                thread.start()
            while len(acknowledged) < 50:
                pass
            _lose_first(home, manager)
            others = [manager.get_or_create(TopicPartition("u", number), is_new=True) for number in range(10)]
            for other in others:
                fill(other, 3)
            for thread in threads:
                thread.join()
            assert all(b"lost" not in content(other) and len(values(other)) == 30 for other in others)
            manager.shutdown()
            again = home.start()
            assert {b"lost"} == {value for offset, value in values(again.require(T0)) if offset >= 100}
            assert again.require(T0).end_offset >= 100 + len(acknowledged)
            home.stop()


def _lose_first(home: ManagerHome, manager: LogManager) -> None:
    """Report a failure as if a call below the first directory had failed."""
    error = StorageError("cannot sync: the disk reports an input/output error", path=home.paths[0] / "t-0")
    error.__cause__ = OSError(errno.EIO, "")
    manager._directories.note_failure(error)
    manager.handle_failures()
