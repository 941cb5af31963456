"""The cleaner's partition states, checkpoints, pauses and uncleanable partitions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from storage.cleaner.cleaner_home import BOTH, COMPACT, CONFIG, DELETE, HOUR, CleanerHome, fill, put
from tidelog.model import LogCleaningAbortedError, TopicPartition
from tidelog.storage.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.cleaner.plan.log_facts import facts_of_log
from tidelog.storage.cleaner.pool import cleaner_state
from tidelog.storage.cleaner.pool.cleaner_state import IN_PROGRESS, CleanerState, LogCleaningState, LogToClean
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.state.log_config import LogConfig

T0, T1, T2 = (TopicPartition("wishing-well", number) for number in range(3))
PAUSED = LogCleaningState(is_taken=False, pauses=1)


def make(home: CleanerHome) -> CleanerState:
    return CleanerState(
        home.fs, [home.path, home.other], lambda: home.logs, clock=home.clock, on_failure=home.failures.append
    )


def on_disk(home: CleanerHome, *, other: bool = False) -> dict[TopicPartition, int]:
    return OffsetCheckpoint.read(home.fs, (home.other if other else home.path) / CLEANER_CHECKPOINT)


def cleaned(state: CleanerState, home: CleanerHome, **offsets: int) -> None:
    """Write checkpoints as earlier rounds would have left them: ``t0=20``."""
    for name, offset in offsets.items():
        state._checkpoints.update(home.path, {TopicPartition("wishing-well", int(name[1:])): offset})


def increasingly_filthy(home: CleanerHome) -> CleanerState:
    for partition, batches in ((T0, 20), (T1, 25), (T2, 30)):
        fill(home.open(partition), batches)
    state = make(home)
    cleaned(state, home, t0=20, t1=20, t2=20)
    return state


def config_with(policy: frozenset[str], **settings: Any) -> LogConfig:
    values = {name: getattr(CONFIG, name) for name in CONFIG.__slots__}
    return LogConfig(**values | {"cleanup_policy": policy} | settings)


def taken(state: CleanerState) -> LogToClean:
    found = state.take_filthiest()
    assert found is not None
    return found


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


class TestTaking:
    def test_the_filthiest(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        found = taken(state)
        assert (found.partition, found.log, found.path) == (T2, home.logs[T2], home.path)
        assert (found.due_count, found.delayed_count, found.max_delay_ms) == (2, 0, 0)
        assert state.state_of(T2) == IN_PROGRESS
        assert state.max_dirty_ratio == found.plan.dirty_ratio

    def test_logs_past_their_maximum_lag_are_counted(self, home: CleanerHome) -> None:
        fill(home.open(T0, max_compaction_lag_ms=HOUR), 20)
        fill(home.open(T1, max_compaction_lag_ms=3 * HOUR), 20)
        fill(home.open(T2), 20)
        home.clock.sleep_ms(2 * HOUR)
        found = taken(make(home))
        assert (found.due_count, found.delayed_count, found.max_delay_ms) == (3, 1, HOUR)

    def test_not_one_that_is_set_aside(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        state.mark_uncleanable(T2, home.logs[T2], "broken")
        assert taken(state).partition == T1

    def test_not_one_that_is_in_progress(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        assert [taken(state).partition, taken(state).partition, state.take_filthiest()] == [T2, T1, None]

    def test_neither(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        assert state.begin(T2)
        state.mark_uncleanable(T1, home.logs[T1], "broken")
        assert state.take_filthiest() is None

    def test_not_one_that_is_paused(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        with state.paused(T2):
            assert taken(state).partition == T1

    def test_a_log_that_cannot_be_planned_for_is_set_aside(
        self, home: CleanerHome, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Kafka's cleaner ends its round at this log."""
        state = increasingly_filthy(home)
        usual = facts_of_log

        def facts(log: Any, partition: TopicPartition, **options: Any) -> Any:
            if partition == T2:
                raise ValueError("Error!")
            return usual(log, partition, **options)

        monkeypatch.setattr(cleaner_state, "facts_of_log", facts)
        assert taken(state).partition == T1
        assert {partition: found.reason for partition, found in state.uncleanable().items()} == {T2: "Error!"}

    def test_a_log_that_takes_no_writes_is_passed_over(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        home.logs[T2].close_handlers()
        assert taken(state).partition == T1
        assert (T2 in dict(state.compacted_logs()), state.uncleanable()) == (False, {})

    def test_a_closed_log_is_passed_over(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        home.logs[T2].close()
        assert taken(state).partition == T1
        assert state.uncleanable() == {}

    def test_nothing_but_the_active_segment(self, home: CleanerHome) -> None:
        log = home.open(T0)
        for _ in range(9):
            put(log, "k")
        log.maybe_increment_log_start_offset(2)
        state = make(home)
        cleaned(state, home, t0=0)
        assert state.take_filthiest() is None

    def test_the_time_since_the_last_look(self, home: CleanerHome) -> None:
        state = make(home)
        home.clock.now += 10
        assert state.since_last_run_ms == 10
        assert state.take_filthiest() is None
        assert (state.since_last_run_ms, state.max_dirty_ratio) == (0, 0.0)


class TestReset:
    @pytest.mark.parametrize(("start", "checkpoint", "first"), [(0, 200, 0), (10, 0, 10)])
    def test_a_checkpoint_that_cannot_be(self, home: CleanerHome, start: int, checkpoint: int, first: int) -> None:
        fill(home.open(T0), 20)
        home.logs[T0].maybe_increment_log_start_offset(start)
        state = make(home)
        cleaned(state, home, t0=checkpoint)
        assert taken(state).plan.first_dirty_offset == first
        assert on_disk(home) == {T0: first}

    def test_it_is_noted_though_nothing_is_due(self, home: CleanerHome) -> None:
        fill(home.open(T0), 20)
        home.logs[T0].maybe_increment_log_start_offset(20)
        state = make(home)
        cleaned(state, home, t0=15)
        assert state.take_filthiest() is None
        assert on_disk(home) == {T0: 20}

    def test_it_is_noted_though_another_log_is_taken(self, home: CleanerHome, caplog: pytest.LogCaptureFixture) -> None:
        fill(home.open(T0), 20)
        fill(home.open(T1), 25)
        home.logs[T0].maybe_increment_log_start_offset(15)
        state = make(home)
        cleaned(state, home, t0=10, t1=5)
        assert taken(state).partition == T1
        assert on_disk(home) == {T0: 15, T1: 5}
        assert "Resetting first dirty offset of wishing-well-0 to log start offset 15" in caplog.text


class TestRetention:
    @pytest.mark.parametrize(("policy", "is_the_cleaners"), [(DELETE, False), (COMPACT, True), (BOTH, True)])
    def test_whose_it_is(self, home: CleanerHome, policy: frozenset[str], is_the_cleaners: bool) -> None:
        log = home.open(T0, cleanup_policy=policy)
        state = make(home)
        assert state.compacted_logs() == ([(T0, log)] if is_the_cleaners else [])
        assert state.begin(T0) is is_the_cleaners
        if is_the_cleaners:
            state.done(T0)
        assert state.pause_unless_compacted(T0) is not is_the_cleaners

    def test_not_of_a_log_that_is_set_aside(self, home: CleanerHome) -> None:
        log = home.open(T0)
        state = make(home)
        state.mark_uncleanable(T0, log, "broken")
        assert (state.compacted_logs(), state.begin(T0)) == ([], False)

    def test_while_the_policy_changes(self, home: CleanerHome) -> None:
        log = home.open(T0, cleanup_policy=DELETE, min_cleanable_dirty_ratio=0.0)
        put(log, "k")
        log.roll()
        put(log, "k")
        state = make(home)
        assert state.pause_unless_compacted(T0)
        log.update_config(config_with(COMPACT, min_cleanable_dirty_ratio=0.0))
        assert state.take_filthiest() is None  # retention has taken the partition
        state.resume(T0)

        found = taken(state)
        log.update_config(config_with(DELETE))
        assert not state.pause_unless_compacted(T0)  # compaction has taken the partition
        state.done_cleaning(found, None)
        assert state.pause_unless_compacted(T0)

    def test_while_it_is_cut(self, home: CleanerHome) -> None:
        home.open(T0, cleanup_policy=DELETE)
        state = make(home)
        assert state.pause_unless_compacted(T0)
        with state.paused(T0):
            assert state.state_of(T0) == LogCleaningState(is_taken=False, pauses=2)
        state.resume(T0)
        assert state.state_of(T0) is None

    def test_while_it_is_deleted(self, home: CleanerHome) -> None:
        home.open(T0, cleanup_policy=DELETE)
        state = make(home)
        assert state.pause_unless_compacted(T0)
        with state.paused(T0):
            del home.logs[T0]
        state.resume(T0)
        assert state.state_of(T0) is None


class TestStates:
    def test_done_cleaning(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        found = taken(state)
        state.done_cleaning(found, 25)
        assert state.state_of(T2) is None
        assert on_disk(home)[T2] == 25
        with pytest.raises(RuntimeError, match="State for partition wishing-well-2 should exist"):
            state.done_cleaning(found, 26)
        with state.paused(T2), pytest.raises(RuntimeError, match="cannot be in state: paused 1 times"):
            state.done_cleaning(found, 26)
        assert on_disk(home)[T2] == 25

    def test_what_was_not_done_leaves_the_checkpoint(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        state.done_cleaning(taken(state), None)
        assert on_disk(home)[T2] == 20

    def test_done_deleting(self, home: CleanerHome) -> None:
        home.open(T0, cleanup_policy=BOTH)
        state = make(home)
        with pytest.raises(RuntimeError, match="should exist"):
            state.done(T0)
        with state.paused(T0), pytest.raises(RuntimeError, match="paused"):
            state.done(T0)
        assert state.begin(T0)
        assert not state.begin(T0)
        state.done(T0)
        assert state.state_of(T0) is None

    def test_resuming_what_is_not_paused(self, home: CleanerHome) -> None:
        home.open(T0)
        state = make(home)
        with pytest.raises(RuntimeError, match="cannot be resumed since it is not paused"):
            state.resume(T0)
        assert state.begin(T0)
        with pytest.raises(RuntimeError, match="cannot be resumed since it is in state: in progress"):
            state.resume(T0)

    def test_pauses_nest(self, home: CleanerHome) -> None:
        home.open(T0)
        state = make(home)
        for pauses in (1, 2, 3):
            state.pause(T0)
            assert state.state_of(T0) == LogCleaningState(is_taken=False, pauses=pauses)
        for _ in range(3):
            assert not state.begin(T0)
            state.resume(T0)
        assert state.begin(T0)

    @pytest.mark.parametrize("threads", [1, 3])
    def test_whoever_pauses_waits_until_it_is_let_go(self, home: CleanerHome, threads: int) -> None:
        state = increasingly_filthy(home)
        found = taken(state)
        inside = threading.Semaphore(0)
        ends = threading.Event()

        def pause() -> None:
            with state.paused(T2):
                inside.release()
                ends.wait(60)

        waiting = [in_thread(pause) for _ in range(threads)]
        while state.state_of(T2) != LogCleaningState(is_taken=True, pauses=threads):
            pass
        with pytest.raises(LogCleaningAbortedError):
            state.check_aborted(T2)
        assert str(state.state_of(T2)) == "aborted"
        assert not inside.acquire(timeout=0.02)
        state.done_cleaning(found, 25)
        for _ in waiting:
            assert inside.acquire(timeout=60)
        assert state.state_of(T2) == LogCleaningState(is_taken=False, pauses=threads)
        assert on_disk(home)[T2] == 20  # the compacted part may have been truncated
        ends.set()
        for thread in waiting:
            thread.join()
        assert state.state_of(T2) is None
        state.check_aborted(T2)

    def test_a_pause_is_taken_back_though_the_block_fails(self, home: CleanerHome) -> None:
        state = make(home)
        with pytest.raises(KeyError), state.paused(T0):
            raise KeyError
        assert state.state_of(T0) is None


class TestCheckpoints:
    def test_an_offset_is_added(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        assert state.checkpoint_of(home.path) == on_disk(home) == {T0: 20, T1: 20, T2: 20}
        assert make(home).checkpoint_of(home.path) == {T0: 20, T1: 20, T2: 20}

    def test_an_offset_is_removed(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        state.forget(home.path, T1)
        assert on_disk(home) == {T0: 20, T2: 20}

    def test_partitions_without_a_log_go_with_the_next_change(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        del home.logs[T0]
        state.truncate(home.path, T1, 19)
        assert on_disk(home) == {T1: 19, T2: 20}

    def test_truncation(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        state.truncate(home.path, T0, 1000)
        assert on_disk(home)[T0] == 20
        state.truncate(home.path, T0, 1)
        assert on_disk(home)[T0] == 1
        state.forget(home.path, T0)
        state.truncate(home.path, T0, 1)
        assert T0 not in on_disk(home)

    def test_a_move(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        state.move(T0, home.path, home.other)
        assert (on_disk(home), on_disk(home, other=True)) == ({T1: 20, T2: 20}, {T0: 20})
        state.forget(home.path, T1)
        state.move(T1, home.path, home.other)  # it was never compacted
        assert on_disk(home, other=True) == {T0: 20}

    def test_a_disk_that_failed(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        state.move(T0, home.path, home.other)
        state.drop_log_directory(home.other)
        assert (state.checkpoint_of(home.other), state.checkpoint_of(home.path)) == ({}, {T1: 20, T2: 20})
        state.truncate(home.other, T0, 1)
        state.move(T1, home.path, home.other)
        assert (on_disk(home), on_disk(home, other=True)) == ({T2: 20}, {T0: 20})

    def test_an_unreadable_one_counts_as_empty(self, home: CleanerHome, caplog: pytest.LogCaptureFixture) -> None:
        (home.path / CLEANER_CHECKPOINT).write_text("not a number\n")
        assert make(home).checkpoint_of(home.path) == {}
        assert "treated as empty" in caplog.text
        assert home.failures == []

    def test_a_write_that_the_disk_refuses_is_reported(self, home: CleanerHome) -> None:
        fill(home.open(T0), 20)
        state = make(home)
        (home.path / CLEANER_CHECKPOINT).mkdir()
        state.done_cleaning(taken(state), 20)
        assert [error.is_disk_failure for error in home.failures] == [True]
        assert state.checkpoint_of(home.path) == {T0: 20}

    def test_awaited(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        found = taken(state)
        assert state.await_cleaned(T2, 20, 0)
        assert not state.await_cleaned(T2, 21, 10)
        assert not state.await_cleaned(TopicPartition("none", 0), 0, 10)
        thread = in_thread(lambda: state.done_cleaning(found, 30))
        assert state.await_cleaned(T2, 30, 60_000)
        thread.join()


class TestSetAside:
    def test_by_log_directory(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        log = home.open(TopicPartition("elsewhere", 0), home.other)
        fill(log, 10)
        state.mark_uncleanable(T1, home.logs[T1], "one reason")
        state.mark_uncleanable(TopicPartition("elsewhere", 0), log, "another")
        holds_20 = max(base for base in home.logs[T1].base_offsets if base <= 20)
        assert state.dirty_bytes(state.uncleanable()) == {
            home.path: sum(one.size for one in home.logs[T1].segments if one.base_offset >= holds_20),
            home.other: log.size,
        }

    def test_it_is_over_with_the_log(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        state.mark_uncleanable(T2, home.logs[T2], "broken")
        del home.logs[T2]
        assert state.uncleanable() == {}

    def test_another_log_of_the_partition_is_tried(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        state.mark_uncleanable(T2, home.logs[T2], "broken")
        fill(home.open(T2, home.other), 30)
        assert taken(state).log is home.logs[T2]

    @pytest.mark.parametrize("change", ["cut", "begins later"])
    def test_a_changed_log_is_tried_again(self, home: CleanerHome, change: str) -> None:
        state = increasingly_filthy(home)
        state.mark_uncleanable(T2, home.logs[T2], "broken")
        put(home.logs[T2], "k")
        assert list(state.uncleanable()) == [T2]
        if change == "cut":
            home.logs[T2].truncate_to(30)
        else:
            home.logs[T2].maybe_increment_log_start_offset(1)
        assert state.uncleanable() == {}
        assert taken(state).partition == T2

    def test_a_closed_one_has_no_bytes(self, home: CleanerHome) -> None:
        state = increasingly_filthy(home)
        state.mark_uncleanable(T2, home.logs[T2], "broken")
        home.logs[T2].close()
        assert state.dirty_bytes(state.uncleanable()) == {}


def test_the_file_is_kafkas(home: CleanerHome) -> None:
    state = increasingly_filthy(home)
    assert (home.path / CLEANER_CHECKPOINT).read_text() == (
        "0\n3\nwishing-well 0 20\nwishing-well 1 20\nwishing-well 2 20\n"
    )
    assert OffsetCheckpoint.read(LOCAL, home.path / CLEANER_CHECKPOINT) == state.checkpoint_of(home.path)
