"""The manager and its log cleaner: automatic compaction, and the waits between them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from log_maker import batch
from storage.manager.manager_home import NOW, DiskHome, ManagerHome, records, values
from tidelog.model import StorageError, TopicPartition
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.cleaner.pool.cleaner_state import CleanerState, LogCleaningState
from tidelog.storage.cleaner.pool.cleaner_thread import CleanerThread
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CHECKPOINT = "cleaner-offset-checkpoint"
QUICK = CleanerSettings(backoff_ms=2, dedupe_buffer_bytes=1 << 20)
IDLE = CleanerSettings(backoff_ms=3_600_000, dedupe_buffer_bytes=1 << 20)
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
PAUSED = LogCleaningState(is_taken=False, pauses=1)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ManagerHome]:
    made = ManagerHome(tmp_path)
    made.topic_settings["t"] = dict(COMPACT)
    yield made
    made.stop()


def put(log: PartitionLog, keys: str, *, timestamp: int = NOW) -> None:
    """Append a record per key with its own offset as value, then roll."""
    for key in keys:
        made = batch(0, [b"%d" % log.end_offset], key=key.encode(), timestamp=timestamp)
        log.append_as_leader(bytearray(made), leader_epoch=0)
    log.roll()


def state_of(manager: LogManager) -> CleanerState:
    assert manager.cleaner is not None
    return manager.cleaner.state


def offsets_and_values(*offsets: int) -> list[tuple[int, bytes]]:
    return [(offset, b"%d" % offset) for offset in offsets]


def idle(home: ManagerHome, keys: str = "", partition: TopicPartition = T0) -> tuple[LogManager, PartitionLog]:
    """Make a log, under a manager whose cleaner has finished its first look and waits."""
    looked, run_once = threading.Event(), CleanerThread._run_once

    def look(thread: CleanerThread) -> bool:
        goes_on = run_once(thread)
        looked.set()
        return goes_on

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CleanerThread, "_run_once", look)
        manager = home.start(cleaner=IDLE)
        assert looked.wait(60)
    log = manager.get_or_create(partition, is_new=True)
    if keys:
        put(log, keys)
    return manager, log


@contextmanager
def taken(manager: LogManager, partition: TopicPartition = T0) -> Iterator[None]:
    """Hold the partition as a cleaner's thread does while it compacts the log."""
    state = state_of(manager)
    assert state.begin(partition)
    try:
        yield
    finally:
        state.done(partition)


def waits_for_the_cleaner(manager: LogManager, work: Callable[[], object]) -> None:
    """Check that ``work`` waits while a cleaner's thread holds the log, and ends after the thread releases it."""
    state, ended = state_of(manager), threading.Event()

    def run() -> None:
        work()
        ended.set()

    with taken(manager):
        thread = threading.Thread(target=run)
        thread.start()
        while state.state_of(T0) != LogCleaningState(is_taken=True, pauses=1):
            assert not ended.is_set()
        assert not ended.wait(0.01)
    thread.join(60)
    assert ended.is_set()


class TestByItself:
    def test_logs_are_compacted(self, home: ManagerHome) -> None:
        manager = home.start(cleaner=QUICK)
        log = manager.get_or_create(T0, is_new=True)
        put(log, "abcab")
        put(log, "a")
        assert state_of(manager).await_cleaned(T0, 6, 60_000)
        assert values(log) == offsets_and_values(2, 4, 5)
        assert home.checkpoint(log.directory.parent, CHECKPOINT) == {T0: 6}

    def test_the_next_start_goes_on_from_the_checkpoint(self, home: ManagerHome) -> None:
        manager = home.start(cleaner=QUICK)
        put(manager.get_or_create(T0, is_new=True), "aba")
        assert state_of(manager).await_cleaned(T0, 3, 60_000)
        home.managers.remove(manager)
        manager.shutdown()
        again, log = idle(home)
        assert state_of(again).checkpoint_of(log.directory.parent) == {T0: 3}
        assert state_of(again).take_filthiest() is None

    def test_topics_that_are_not_compacted_are_left_alone(self, home: ManagerHome) -> None:
        home.topic_settings.clear()
        manager = home.start(cleaner=QUICK)
        log = manager.get_or_create(T0, is_new=True)
        put(log, "aba")
        assert not state_of(manager).await_cleaned(T0, 0, 30)
        assert len(values(log)) == 3

    @pytest.mark.parametrize("options", [{"cleaner_enable": False}, {"scheduler": None}])
    def test_without_a_cleaner(self, home: ManagerHome, options: dict[str, Any]) -> None:
        manager = home.start(**options)
        log = manager.get_or_create(T0, is_new=True)
        put(log, "aba")
        manager.truncate_to({T0: 2})
        manager.truncate_fully_and_start_at(T0, 7)
        manager.move(T0, next(path for path in home.paths if path != log.directory.parent))
        assert manager.cleaner is None
        assert manager.run_move(T0)
        manager.delete(T0)

    def test_a_log_that_was_set_aside_is_tried_again_by_the_next_start(self, home: ManagerHome) -> None:
        manager, log = idle(home, "aba")
        state_of(manager).mark_uncleanable(T0, log, "broken")
        assert state_of(manager).take_filthiest() is None
        home.managers.remove(manager)
        manager.shutdown()
        again = home.start(cleaner=QUICK)
        assert state_of(again).await_cleaned(T0, 3, 60_000)

    def test_settings_change(self, home: ManagerHome) -> None:
        manager, _ = idle(home, "aba")
        assert manager.cleaner is not None
        manager.cleaner.reconfigure(QUICK)
        assert state_of(manager).await_cleaned(T0, 3, 60_000)

    def test_the_cleaner_ends_before_the_logs(self, home: ManagerHome) -> None:
        manager, _ = idle(home)
        assert manager.cleaner is not None
        threads = manager.cleaner.threads
        assert all(thread.is_alive() for thread in threads)
        manager.shutdown()
        assert not any(thread.is_alive() for thread in threads)
        manager.cleaner.reconfigure(QUICK)
        assert manager.cleaner.threads == ()


class TestTruncation:
    def test_it_waits_for_the_cleaner(self, home: ManagerHome) -> None:
        manager, log = idle(home, "aba")
        waits_for_the_cleaner(manager, lambda: manager.truncate_to({T0: 2}))
        assert log.end_offset == 2

    def test_emptying_does_too(self, home: ManagerHome) -> None:
        manager, log = idle(home, "aba")
        waits_for_the_cleaner(manager, lambda: manager.truncate_fully_and_start_at(T0, 20))
        assert log.end_offset == 20

    @pytest.mark.parametrize("cut", [3, 4, 100])
    def test_not_in_the_active_segment(self, home: ManagerHome, cut: int) -> None:
        manager, log = idle(home, "aba")
        for _ in range(2):
            log.append_as_leader(bytearray(batch(0, [b"x"])), leader_epoch=0)
        with taken(manager):
            manager.truncate_to({T0: cut})
        assert log.end_offset == min(cut, 5)

    @pytest.mark.parametrize(("cut", "left"), [(4, 3), (2, 0), (5, 3)])
    def test_what_is_behind_is_dirty(self, home: ManagerHome, cut: int, left: int) -> None:
        manager, log = idle(home, "aba")
        put(log, "bab")
        assert log.base_offsets == [0, 3, 6]
        found = state_of(manager).take_filthiest()
        assert found is not None
        state_of(manager).done_cleaning(found, 6)
        manager.truncate_to({T0: cut})
        assert home.checkpoint(log.directory.parent, CHECKPOINT) == {T0: left}

    def test_a_future_log_concerns_nobody(self, home: ManagerHome) -> None:
        manager, log = idle(home, "aba")
        manager.move(T0, next(path for path in home.paths if path != log.directory.parent))
        manager.moves[T0].copy()
        manager.truncate_to({T0: 1}, is_future=True)
        manager.truncate_fully_and_start_at(T0, 0, is_future=True)
        assert state_of(manager).state_of(T0) == PAUSED


class TestDeletion:
    @pytest.mark.parametrize("is_stray", [False, True])
    def test_it_waits_for_the_cleaner(self, home: ManagerHome, is_stray: bool) -> None:
        manager, log = idle(home, "aba")
        path = log.directory.parent
        found = state_of(manager).take_filthiest()
        assert found is not None
        state_of(manager).done_cleaning(found, 3)
        assert home.checkpoint(path, CHECKPOINT) == {T0: 3}
        waits_for_the_cleaner(manager, lambda: manager.delete(T0, is_stray=is_stray))
        assert home.checkpoint(path, CHECKPOINT) == {}
        assert state_of(manager).state_of(T0) is None

    def test_one_that_moves(self, home: ManagerHome) -> None:
        manager, log = idle(home, "aba")
        manager.move(T0, next(path for path in home.paths if path != log.directory.parent))
        manager.delete(T0)
        assert state_of(manager).state_of(T0) is None


class TestMoves:
    def test_the_new_log_is_compacted_as_far_as_the_old_one(self, home: ManagerHome) -> None:
        manager, log = idle(home, "aba")
        source = log.directory.parent
        target = next(path for path in home.paths if path != source)
        found = state_of(manager).take_filthiest()
        assert found is not None
        state_of(manager).done_cleaning(found, 3)
        manager.move(T0, target)
        assert state_of(manager).state_of(T0) == PAUSED
        assert manager.run_move(T0)
        assert (home.checkpoint(source, CHECKPOINT), home.checkpoint(target, CHECKPOINT)) == ({}, {T0: 3})
        assert state_of(manager).state_of(T0) is None

    def test_it_begins_once_the_cleaner_has_let_go(self, home: ManagerHome) -> None:
        manager, log = idle(home, "aba")
        target = next(path for path in home.paths if path != log.directory.parent)
        waits_for_the_cleaner(manager, lambda: manager.move(T0, target))
        assert state_of(manager).state_of(T0) == PAUSED

    def test_it_is_called_off(self, home: ManagerHome) -> None:
        manager, log = idle(home, "aba")
        source = log.directory.parent
        manager.move(T0, next(path for path in home.paths if path != source))
        manager.move(T0, source)
        assert state_of(manager).state_of(T0) is None

    def test_after_a_restart_it_is_left_alone_from_the_start(self, home: ManagerHome) -> None:
        manager, log = idle(home, "aba")
        manager.move(T0, next(path for path in home.paths if path != log.directory.parent))
        manager.moves[T0].copy()
        home.managers.remove(manager)
        manager.shutdown()
        again = home.start(cleaner=QUICK)
        assert state_of(again).state_of(T0) == PAUSED
        assert not state_of(again).await_cleaned(T0, 3, 20)
        assert again.run_move(T0)
        put(again.require(T0), "a")
        assert state_of(again).await_cleaned(T0, 4, 60_000)


class TestPolicy:
    def test_no_compaction_any_more(self, home: ManagerHome) -> None:
        manager, _ = idle(home, "aba")
        home.topic_settings["t"]["cleanup.policy"] = "delete"
        waits_for_the_cleaner(manager, lambda: manager.update_topic_config("t"))
        assert state_of(manager).take_filthiest() is None

    def test_other_changes_wait_for_nothing(self, home: ManagerHome) -> None:
        manager, log = idle(home, "aba")
        home.topic_settings["t"] |= {"cleanup.policy": "compact,delete", "retention.ms": "77"}
        with taken(manager):
            manager.update_topic_config("t")
        assert log.config.retention_ms == 77


class TestRetention:
    def old(self, home: ManagerHome, **options: Any) -> tuple[LogManager, PartitionLog]:
        home.topic_settings["t"]["retention.ms"] = "1000"
        manager = home.start(cleaner=IDLE, retention_check_interval_ms=1000, initial_task_delay_ms=0, **options)
        log = manager.get_or_create(T0, is_new=True)
        put(log, "aba")
        return manager, log

    @pytest.mark.parametrize("policy", ["compact", "compact,delete"])
    def test_what_is_compacted_is_the_cleaners(self, home: ManagerHome, policy: str) -> None:
        home.topic_settings["t"]["cleanup.policy"] = policy
        manager, log = self.old(home)
        log.maybe_increment_log_start_offset(3)
        home.clock.sleep_ms(10_000)
        assert log.base_offsets == [0, 3]
        assert manager.cleaner is not None
        manager.cleaner.reconfigure(QUICK)
        for _ in range(5000):
            if log.base_offsets == [3]:
                break
            threading.Event().wait(0.002)
        assert log.base_offsets == [3]

    def test_the_rest_is_not_and_a_future_log_goes_with_it(self, home: ManagerHome) -> None:
        home.topic_settings["t"]["cleanup.policy"] = "delete"
        manager, log = self.old(home)
        manager.move(T0, next(path for path in home.paths if path != log.directory.parent))
        manager.moves[T0].copy()
        future = manager.log(T0, is_future=True)
        assert future is not None
        assert future.end_offset == 3
        for task in home.scheduler.tasks:
            if task.name == "move-log":
                task.cancel()
        home.clock.sleep_ms(10_000)
        assert [log.log_start_offset, future.log_start_offset] == [3, 3]
        assert state_of(manager).state_of(T0) == PAUSED

    def test_one_that_fails_is_given_back(self, home: ManagerHome, monkeypatch: pytest.MonkeyPatch) -> None:
        home.topic_settings["t"]["cleanup.policy"] = "delete"
        manager, log = self.old(home)
        other = manager.get_or_create(T1, is_new=True)
        put(other, "a")

        def fail() -> None:
            raise StorageError("a limit")

        monkeypatch.setattr(log, "delete_old_segments", fail)
        home.clock.sleep_ms(10_000)
        assert other.log_start_offset == 1
        assert [state_of(manager).state_of(partition) for partition in (T0, T1)] == [None, None]


class TestBesideOthers:
    """The cleaner's threads run all the time, and each key keeps its last value."""

    @pytest.mark.parametrize("seed", range(3))
    def test_appends_truncation_and_moves(self, home: ManagerHome, seed: int) -> None:
        chance = Random(seed)
        manager = home.start(cleaner=replace(QUICK, threads=2), is_sole_replica=False)
        manager.get_or_create(T0, is_new=True)
        said: list[str] = []
        cuts = 0
        for _ in range(60):
            log = manager.require(T0)
            keys = "".join(chance.choices("abcdefgh", k=chance.randrange(1, 8)))
            put(log, keys)
            said += keys
            if chance.random() < 0.2:
                cuts += 1
                del said[chance.randrange(log.high_watermark, len(said)) :]
                manager.truncate_to({T0: len(said)})
            else:
                log.update_high_watermark(chance.randrange(log.high_watermark, len(said) + 1))
            if chance.random() < 0.1:
                manager.move(T0, chance.choice(home.paths))
                manager.run_move(T0)
        log = manager.require(T0)
        put(log, "a")
        said += "a"
        log.update_high_watermark(len(said))
        assert state_of(manager).await_cleaned(T0, log.base_offsets[-1], 20_000)
        last = {key: offset for offset, key in enumerate(said)}
        assert {(one.key or b"").decode(): one.offset for one in records(log)} == last
        assert len(records(log)) == len(last)
        assert cuts
        assert (state_of(manager).uncleanable(), list(manager.offline)) == ({}, [])


class TestDisks:
    def test_a_disk_fails_while_its_log_is_compacted(self) -> None:
        home = DiskHome()
        home.topic_settings["t"] = dict(COMPACT)
        manager, log = idle(home, "aba")
        other = manager.get_or_create(T1, is_new=True)
        put(other, "aba")
        path = log.directory.parent
        assert other.directory.parent != path
        home.break_disk(path)
        assert manager.cleaner is not None
        manager.cleaner.reconfigure(QUICK)
        for _ in range(5000):
            home.clock.sleep_ms(0)
            if path in manager.offline:
                break
            threading.Event().wait(0.002)
        assert state_of(manager).await_cleaned(T1, 3, 60_000)
        assert list(manager.offline) == [path]
        assert state_of(manager).checkpoint_of(path) == {}
        assert [thread.is_dead for thread in manager.cleaner.threads] == [False]
        assert state_of(manager).uncleanable() == {}
        home.stop()
