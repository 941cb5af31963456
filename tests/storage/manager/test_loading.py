"""Starting a manager: parallel loading with progress reports, leftover files of crashes, and duplicates."""

from __future__ import annotations

import errno
import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from storage.manager.manager_home import MARKER, DiskHome, ManagerHome, content, fill, values
from tidelog.model import DirectoryError, TopicPartition
from tidelog.runtime.progress import Progress
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.manager.logs import loading
from tidelog.storage.manager.logs.loading import REPORT_EVERY_MS, describe_progress
from tidelog.testing import DiskFault, Lost
from tidelog.testing.disk.simulated_lock import SimulatedLock

PARTITIONS = [TopicPartition("t", number) for number in range(8)]
T0 = PARTITIONS[0]


@pytest.fixture
def home() -> Iterator[DiskHome]:
    made = DiskHome()
    yield made
    made.stop()


def killed(home: ManagerHome) -> dict[TopicPartition, bytes]:
    """Fill eight partitions unevenly over the directories, then kill the manager."""
    manager = home.start()
    for number, partition in enumerate(PARTITIONS):
        fill(manager.get_or_create(partition), 2 + 3 * number)
    found = {partition: content(manager.require(partition)) for partition in PARTITIONS}
    home.kill(manager)
    return found


def log_bytes(home: DiskHome) -> int:
    return sum(len(data) for path, data in home.disk.files().items() if path.suffix == ".log")


class TestProgress:
    def test_it_counts_logs_and_bytes_to_their_ends(self, home: DiskHome) -> None:
        killed(home)
        told: list[Progress] = []
        manager = home.make()
        manager.startup(on_progress=told.append)
        assert [one.logs_done for one in told] == sorted(one.logs_done for one in told)
        assert [one.bytes_done for one in told] == sorted(one.bytes_done for one in told)
        assert {(one.logs_total, one.bytes_total) for one in told} == {(8, log_bytes(home))}
        assert (told[-1].logs_done, told[-1].bytes_done) == (8, log_bytes(home))
        assert manager.loading is None

    def test_after_an_orderly_stop_there_are_no_bytes(self, home: DiskHome) -> None:
        killed(home)
        home.start().shutdown()
        told: list[Progress] = []
        home.make().startup(on_progress=told.append)
        assert [(one.logs_done, one.bytes_total) for one in told] == [(number, 0) for number in range(1, 9)]

    def test_what_remains_goes_down_to_nothing_for_each_directory_and_thread(
        self, home: DiskHome, caplog: pytest.LogCaptureFixture
    ) -> None:
        killed(home)
        logs: dict[Path, list[int]] = {path: [] for path in home.paths}
        threads: set[tuple[Path, int]] = set()
        segments: list[int] = []
        manager = home.make(recovery_threads=2)

        def look(_: Progress) -> None:
            assert manager.loading is not None
            for path, left in manager.loading.remaining_logs.items():
                logs[path].append(left)
            threads.update(manager.loading.remaining_segments)
            segments.append(sum(manager.loading.remaining_segments.values()))

        manager.startup(on_progress=look)
        for left in logs.values():
            assert left == sorted(left, reverse=True)
            assert left[-1] == 0
        assert {path for path, _ in threads} <= set(home.paths)
        assert {number for _, number in threads} <= {0, 1}
        assert max(segments) > 0
        assert segments[-1] == 0

    def test_a_long_start_tells_of_itself_now_and_then(self, home: DiskHome, caplog: pytest.LogCaptureFixture) -> None:
        killed(home)
        caplog.set_level(logging.INFO)
        home.make(recovery_threads=1).startup(on_progress=lambda _: home.clock.sleep_ms(REPORT_EVERY_MS // 4))
        lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Loading: ")]
        assert len(lines) > 3
        assert " of 8 logs, " in lines[0]
        assert "s left" in lines[-1]
        assert "Loaded 8 logs in " in caplog.text
        assert caplog.text.count("Recovering 4 logs in /disk") == 2

    def test_sentences(self) -> None:
        counts = {"logs_done": 120, "logs_total": 2000, "bytes_done": 0, "bytes_total": 0, "elapsed_ms": 6000}
        assert describe_progress(Progress(**counts)) == "120 of 2000 logs, about 94 s left"
        counts |= {"bytes_done": 2_500_000, "bytes_total": 10_000_000}
        words = "120 of 2000 logs, 2.5 of 10.0 MB recovered, about 18 s left"
        assert describe_progress(Progress(**counts)) == words
        counts |= {"bytes_done": 0, "logs_done": 0}
        assert describe_progress(Progress(**counts)) == "0 of 2000 logs, 0.0 of 10.0 MB recovered"

    def test_orderly_starts_say_so(self, home: DiskHome, caplog: pytest.LogCaptureFixture) -> None:
        killed(home)
        home.start().shutdown()
        caplog.clear()
        caplog.set_level(logging.INFO)
        home.start()
        assert caplog.text.count("Skipping recovery of 4 logs in /disk") == 2


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("directories", [1, 2, 3])
def test_everything_is_recovered_with_any_number_of_threads(directories: int, threads: int) -> None:
    home = DiskHome(directories)
    before = killed(home)
    manager = home.start(recovery_threads=threads)
    assert {partition: content(manager.require(partition)) for partition in PARTITIONS} == before
    assert all(log.loaded.recovered for log in manager.all_logs())
    home.stop()


def test_where_nothing_has_to_be_recovered_a_directory_has_one_thread(home: DiskHome) -> None:
    killed(home)
    home.start().shutdown()
    threads = []
    manager = home.make(recovery_threads=5)
    manager.startup(on_progress=lambda _: threads.append(threading.current_thread().name))
    assert len(threads) == len(PARTITIONS)
    assert len(set(threads)) == len(home.paths)


def test_a_partition_number_with_leading_zeros(home: DiskHome) -> None:
    """Kafka parses this name in the same way, and keeps it."""
    before = killed(home)
    path = next(path for path in home.paths if home.disk.exists(path / "t-3"))
    home.disk.rename(path / "t-3", path / "t-003")
    log = home.start().require(PARTITIONS[3])
    assert log.directory == path / "t-003"
    assert content(log) == before[PARTITIONS[3]]


def test_directories_are_loaded_side_by_side(home: DiskHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads load in each of two directories, so four large logs can wait for each other."""
    before = killed(home)
    monkeypatch.setattr(loading, "WORTH_A_THREAD_BYTES", 1)
    together = threading.Barrier(4)
    load = PartitionLog.open

    def wait_and_load(request: OpenRequest) -> PartitionLog:
        together.wait(60)
        return load(request)

    monkeypatch.setattr(PartitionLog, "open", wait_and_load)
    manager = home.start(recovery_threads=2)
    assert set(manager.partitions()) == set(before)


def test_a_thread_loads_the_small_logs_of_a_directory(home: DiskHome, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(home)
    monkeypatch.setattr(loading, "BATCH", 1)
    threads = set()

    def report(_: Progress) -> None:
        threads.add(threading.current_thread().name)
        time.sleep(0.01)  # another thread could take the next log

    home.make(recovery_threads=5).startup(on_progress=report)
    assert len(threads) == len(home.paths)


def test_a_shutdown_waits_for_the_start(home: DiskHome) -> None:
    """The clean shutdown marker is written only after all logs are recovered."""
    before = killed(home)
    manager = home.make(recovery_threads=1)
    ends: list[threading.Thread] = []

    def end(_: Progress) -> None:
        if not ends:
            ends.append(threading.Thread(target=manager.shutdown))
            ends[0].start()
        assert not any(home.disk.exists(path / MARKER) for path in home.paths)

    manager.startup(on_progress=end)
    ends[0].join()
    assert all(home.disk.exists(path / MARKER) for path in home.paths)
    again = home.start()
    assert {partition: content(again.require(partition)) for partition in PARTITIONS} == before


def test_a_start_that_was_interrupted_is_made_again(home: DiskHome) -> None:
    """Kafka deletes the marker before it loads, and recovers everything the next time. Here at most one segment is."""
    manager = home.start()
    fill(manager.get_or_create(T0))
    before = content(manager.require(T0))
    manager.shutdown()
    failing = home.make()
    with pytest.raises(KeyboardInterrupt):
        failing.startup(on_progress=_interrupt)
    home.managers.remove(failing)
    again = home.start()
    assert content(again.require(T0)) == before
    assert len(again.require(T0).loaded.recovered) <= 1


def _interrupt(_: Progress) -> None:
    raise KeyboardInterrupt


class TestLeftovers:
    def test_a_deleted_log_hides_no_live_one(self, home: DiskHome) -> None:
        manager = home.start(paths=home.paths[:1])
        for count in (3, 4):
            fill(manager.get_or_create(T0), count)
            manager.delete(T0)
        live = manager.get_or_create(T0)
        fill(live, 5)
        live.flush()
        before = content(live)
        home.kill(manager)
        for _ in range(2):
            again = home.start(paths=home.paths[:1])
            assert content(again.require(T0)) == before
            assert len(again.deleted_logs) == 2
            assert [directory.logs for directory in again.online] == [{T0: again.require(T0)}]
            again.shutdown()
        last = home.start(paths=home.paths[:1])
        home.clock.sleep_ms(120_000)
        assert last.deleted_logs == []
        assert content(last.require(T0)) == before

    def test_a_deleted_log_in_a_directory_that_fails_is_not_offline(self, home: DiskHome) -> None:
        manager = home.start()
        home_of_deleted = manager.get_or_create(T0).directory.parent
        manager.delete(T0)
        home.kill(manager)
        home.disk.fail(DiskFault(errno=errno.EIO, calls={"remove", "create"}, below=home_of_deleted))
        again = home.start()
        home.clock.sleep_ms(0)
        if again.offline:
            assert again.deleted_logs == []

    def test_it_is_there_twice_and_one_has_nothing(self, home: DiskHome, caplog: pytest.LogCaptureFixture) -> None:
        for first, second in ((0, 5), (5, 0)):
            for path, count in zip(home.paths, (first, second), strict=True):
                manager = home.start(paths=[path])
                fill(manager.get_or_create(T0), count)
                manager.shutdown()
            manager = home.start()
            assert len(values(manager.require(T0))) == 50
            assert len(manager.strays) >= 1
            assert "; the latter is set aside" in caplog.text
            manager.delete(T0)
            home.clock.sleep_ms(120_000)
            manager.shutdown()

    @pytest.mark.parametrize(("empty", "filled", "is_refused"), [
        (None, None, False), (None, 1, False), (1, None, False), (1, 1, False), (1, 2, True),
    ])  # fmt: skip
    def test_it_is_there_twice_and_one_is_another_topics(
        self, home: DiskHome, empty: int | None, filled: int | None, is_refused: bool
    ) -> None:
        """A deleted topic's log, which is empty, is no copy of the log of a new topic with its name."""
        for path, number, count in zip(home.paths, (empty, filled), (0, 5), strict=True):
            manager = home.start(paths=[path])
            topic_id = None if number is None else uuid.UUID(int=number)
            fill(manager.get_or_create(T0, topic_id=topic_id), count)
            manager.shutdown()
        manager = home.make()
        with pytest.raises(DirectoryError, match="Duplicate log directories") if is_refused else nullcontext():
            manager.startup()
        if is_refused:
            home.managers.remove(manager)
        else:
            assert manager.require(T0).end_offset == 50

    def test_it_is_there_twice_and_nobody_can_tell_which_is_right(self, home: DiskHome) -> None:
        for path, count in zip(home.paths, (3, 4), strict=True):
            manager = home.start(paths=[path])
            fill(manager.get_or_create(T0), count)
            manager.shutdown()
        failing = home.make()
        with pytest.raises(DirectoryError, match=r"/disk1/t-0 \(up to offset 30\) and /disk2/t-0 \(up to offset 40\)"):
            failing.startup()
        home.managers.remove(failing)
        assert all(home.disk.exists(path / MARKER) for path in home.paths)
        home.start(paths=home.paths[:1])  # the locks are free

    @pytest.mark.parametrize("spelling", ["./disk1/", "disk1/../disk1", "disk1"])
    def test_a_relative_path_and_one_with_a_slash_at_its_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "disk1").mkdir()
        home = ManagerHome(tmp_path)
        manager = home.start(paths=[Path(spelling)])
        fill(manager.get_or_create(T0), 3)
        manager.require(T0).flush()
        manager.checkpoint_recovery_points()
        assert home.checkpoint(tmp_path / "disk1", "recovery-point-offset-checkpoint") == {T0: 30}
        home.kill(manager)
        assert home.start(paths=[Path(spelling)]).require(T0).recovery_point == 30
        home.stop()


def test_a_directory_that_cannot_be_listed(home: DiskHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first check lists the directory, and the later listing fails."""
    before = killed(home)
    lost = {partition for partition in PARTITIONS if home.disk.exists(home.paths[0] / str(partition))}
    manager = home.make()
    lock = home.disk.lock

    def lock_and_break(path: Path) -> SimulatedLock:
        home.disk.heal()
        home.disk.fail(DiskFault(errno=errno.EIO, calls={"list_directories"}, pattern="/disk1"))
        return lock(path)

    monkeypatch.setattr(home.disk, "lock", lock_and_break)
    manager.startup()
    assert list(manager.offline) == [home.paths[0]]
    assert set(manager.partitions()) == set(before) - lost
    assert lost


def test_a_second_crash_brings_back_nothing_that_the_recovery_removed(home: DiskHome) -> None:
    manager = home.start()
    log = manager.get_or_create(T0)
    fill(log, 10)
    first = log.directory / "00000000000000000000.log"
    home.kill(manager)
    with home.disk.open(first, write=True) as file:
        file.pwrite(bytes(100), file.size - 100)
    home.disk.sync_all()
    manager = home.start()
    log = manager.require(T0)
    assert (log.base_offsets, log.end_offset) == ([0], 20)
    before = content(log)
    home.crash(manager, Lost())
    log = home.start().require(T0)
    assert (log.base_offsets, log.end_offset) == ([0], 20)
    assert content(log) == before
