"""ThreadScheduler: real threads, and a manual clock where a test is about time itself."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from new_threads import new_threads
from tidelog.model import StorageError
from tidelog.runtime import ThreadScheduler
from tidelog.testing import ManualClock

SOON = 60.0
"""The longest wait, in seconds, for an event that takes milliseconds on an idle machine."""


@pytest.fixture
def scheduler() -> Iterator[ThreadScheduler]:
    made = ThreadScheduler(4)
    made.startup()
    yield made
    made.shutdown()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


_threads_before: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def _own_threads_begin() -> None:
    _threads_before.clear()
    _threads_before.update(threading.enumerate())


def own_threads() -> list[threading.Thread]:
    """Return the threads of this test's schedulers."""
    return [thread for thread in new_threads(_threads_before) if thread.name.startswith("tidelog-scheduler")]


def is_waiting(scheduler: ThreadScheduler) -> bool:
    return scheduler._pool is not None and len(scheduler._pool._waiting) > 0


def test_a_task_runs_once_or_again_and_again(scheduler: ThreadScheduler) -> None:
    once, often = [], []
    scheduler.schedule("once", lambda: once.append(threading.current_thread()), delay_ms=5)
    scheduler.schedule("often", lambda: often.append(1), period_ms=5)
    wait_for(lambda: len(often) >= 5 and len(once) > 0)
    assert len(once) == 1
    assert once[0].daemon
    assert once[0].name.startswith("tidelog-scheduler-")


def test_no_thread_is_made_before_it_is_needed() -> None:
    scheduler = ThreadScheduler(8)
    scheduler.startup()
    assert own_threads() == []
    done: list[threading.Thread] = []
    for number in range(1, 6):  # one after the other: one thread does them all
        scheduler.schedule("short", lambda: done.append(threading.current_thread()))
        wait_for(lambda number=number: len(done) == number and scheduler._pool._idle == 1)  # type: ignore[misc, union-attr]
    assert len(set(done)) == 1
    scheduler.shutdown()
    assert own_threads() == []


def test_runs_of_a_periodic_task_use_one_thread() -> None:
    scheduler = ThreadScheduler(8)
    scheduler.startup()
    threads = []
    scheduler.schedule("periodic", lambda: threads.append(threading.current_thread()), period_ms=1)
    wait_for(lambda: len(threads) > 10)
    assert len(own_threads()) == 1
    scheduler.shutdown()


def test_as_many_tasks_as_threads_run_side_by_side(scheduler: ThreadScheduler) -> None:
    together = threading.Barrier(4)
    passed = []
    for _ in range(4):
        scheduler.schedule("meets the others", lambda: passed.append(together.wait(SOON)))
    wait_for(lambda: len(passed) == 4)
    more = threading.Event()
    scheduler.schedule("waits for a thread", more.set)
    assert more.wait(SOON)


def test_a_task_beyond_the_threads_waits() -> None:
    scheduler = ThreadScheduler(1)
    scheduler.startup()
    release = threading.Event()
    ran: list[bool | str] = []
    scheduler.schedule("holds the thread", lambda: ran.append(release.wait(SOON)))
    scheduler.schedule("second", lambda: ran.append("second"))
    time.sleep(0.05)
    assert ran == []
    scheduler.set_threads(2)
    wait_for(lambda: ran == ["second"])
    release.set()
    wait_for(lambda: ran == ["second", True])
    scheduler.shutdown()


def test_threads_too_many_end_when_they_are_idle(scheduler: ThreadScheduler) -> None:
    together = threading.Barrier(4)
    passed = []
    for _ in range(4):
        scheduler.schedule("meets the others", lambda: passed.append(together.wait(SOON)))
    wait_for(lambda: len(passed) == 4)
    assert len(own_threads()) == 4
    scheduler.set_threads(1)
    wait_for(lambda: len(own_threads()) == 1)
    ran = threading.Event()
    scheduler.schedule("still served", ran.set)
    assert ran.wait(SOON)


def test_a_task_does_not_overlap_itself_and_missed_runs_are_left_out() -> None:
    clock = ManualClock(1_000)
    scheduler = ThreadScheduler(4, clock=clock)
    scheduler.startup()
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)
    at: list[int] = []

    def slow() -> None:
        at.append(clock.now)
        begun.release()
        go_on.acquire(timeout=SOON)

    scheduler.schedule("slow", slow, delay_ms=10, period_ms=10)
    time.sleep(0.05)
    assert at == []  # the clock does not move
    clock.now = 1_010
    assert begun.acquire(timeout=SOON)
    clock.now = 1_047  # three runs are missed
    time.sleep(0.05)
    assert at == [1_010]
    go_on.release()
    wait_for(lambda: is_waiting(scheduler))
    time.sleep(0.05)
    assert at == [1_010]
    clock.now = 1_050
    assert begun.acquire(timeout=SOON)
    go_on.release()
    wait_for(lambda: is_waiting(scheduler))
    clock.now = 1_060
    assert begun.acquire(timeout=SOON)
    go_on.release()
    scheduler.shutdown()
    assert at == [1_010, 1_050, 1_060]


def test_tasks_come_in_order_of_time_then_as_they_were_given() -> None:
    clock = ManualClock(0)
    scheduler = ThreadScheduler(1, clock=clock)
    scheduler.startup()
    ran: list[str] = []
    for name, delay_ms in (("c", 30), ("a", 10), ("d", 30), ("b", 20)):
        scheduler.schedule(name, lambda name=name: ran.append(name), delay_ms=delay_ms)  # type: ignore[misc]
    clock.now = 30
    wait_for(lambda: len(ran) == 4)
    assert ran == ["a", "b", "c", "d"]
    scheduler.shutdown()


def test_a_cancelled_task_does_not_run_any_more() -> None:
    clock = ManualClock(0)
    scheduler = ThreadScheduler(1, clock=clock)  # one thread: once a later task has run, all earlier ones have
    scheduler.startup()
    ran: list[str] = []

    def until(due_ms: int) -> None:
        passed = threading.Event()
        scheduler.schedule("passed", passed.set, delay_ms=due_ms - clock.now)
        clock.now = due_ms
        assert passed.wait(SOON)

    scheduler.schedule("later", lambda: ran.append("later"), delay_ms=50).cancel()
    periodic = scheduler.schedule("periodic", lambda: ran.append("periodic"), period_ms=10)
    for due_ms in (10, 20, 60):
        until(due_ms)
    assert ran == ["periodic"] * len(ran)
    assert len(ran) >= 3
    periodic.cancel()
    periodic.cancel()
    count = len(ran)
    until(100)
    assert len(ran) == count
    assert periodic.name == "periodic"
    scheduler.shutdown()


def test_a_task_may_cancel_itself(scheduler: ThreadScheduler) -> None:
    ran = []

    def work() -> None:
        ran.append(1)
        if len(ran) == 3:
            task.cancel()

    task = scheduler.schedule("three times", work, delay_ms=10, period_ms=1)
    wait_for(lambda: len(ran) == 3)
    time.sleep(0.05)
    assert len(ran) == 3


def test_errors_are_counted_and_logged_once_and_the_task_goes_on(
    scheduler: ThreadScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    errors = [StorageError("no space", path="/d"), StorageError("no space", path="/d"), KeyError("ours"), SystemExit(3)]
    done = threading.Event()

    def work() -> None:
        if errors:
            raise errors.pop(0)
        done.set()

    with caplog.at_level(logging.ERROR, "tidelog.runtime"):
        scheduler.schedule("flush-log", work, period_ms=1)
        assert done.wait(SOON)
    assert scheduler.errors == {"flush-log": 4}
    disk, ours, leaving = caplog.records
    assert disk.getMessage().startswith("Background task flush-log failed: no space")
    assert disk.exc_info is None  # the disk's fault needs no stack trace
    assert ours.exc_info is not None
    assert leaving.getMessage() == "Background task flush-log failed: 3"


def test_shutdown_waits_for_what_runs_and_begins_nothing_more() -> None:
    clock = ManualClock(0)
    scheduler = ThreadScheduler(4, clock=clock)
    scheduler.startup()
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(0.1)
        ended.set()

    never = []
    scheduler.schedule("under way", work)
    scheduler.schedule("in a moment", lambda: never.append(1), delay_ms=50)
    assert begun.wait(SOON)
    scheduler.shutdown()
    assert ended.is_set()
    assert own_threads() == []
    clock.now = 100  # no thread is left that could see it
    scheduler.shutdown()
    assert never == []


def test_a_task_may_shut_its_scheduler_down(scheduler: ThreadScheduler) -> None:
    done = threading.Event()

    def work() -> None:
        scheduler.shutdown()
        done.set()

    scheduler.schedule("the last one", work, period_ms=1)
    assert done.wait(SOON)
    wait_for(lambda: own_threads() == [])
    assert scheduler._pool is None


def test_starting_twice_is_an_error_starting_again_is_not(scheduler: ThreadScheduler) -> None:
    with pytest.raises(RuntimeError, match="started already"):
        scheduler.startup()
    scheduler.shutdown()
    scheduler.startup()
    ran = threading.Event()
    scheduler.schedule("again", ran.set)
    assert ran.wait(SOON)


def test_a_task_for_a_scheduler_that_does_not_run_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = ThreadScheduler()
    with caplog.at_level(logging.INFO, "tidelog.runtime"):
        task = scheduler.schedule("too early", lambda: None)
    assert caplog.messages == ["The scheduler is not running: task too early is ignored"]
    assert task.name == "too early"
    task.cancel()
    scheduler.shutdown()


def test_impossible_numbers_are_refused(scheduler: ThreadScheduler) -> None:
    with pytest.raises(ValueError, match="threads is 0"):
        ThreadScheduler(0)
    with pytest.raises(ValueError, match="threads is -1"):
        scheduler.set_threads(-1)
    with pytest.raises(ValueError, match="delay_ms is -1"):
        scheduler.schedule("x", lambda: None, delay_ms=-1)
    with pytest.raises(ValueError, match="period_ms is 0"):
        scheduler.schedule("x", lambda: None, period_ms=0)


def test_never_is_a_time_like_others(scheduler: ThreadScheduler) -> None:
    scheduler.schedule("flush", lambda: None, delay_ms=2**63 - 1, period_ms=2**63 - 1)
    ran = threading.Event()
    scheduler.schedule("now", ran.set)
    assert ran.wait(SOON)


def test_without_threads_to_be_had(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = ThreadScheduler(2)
    scheduler.startup()
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        scheduler.schedule("first", lambda: None)
    monkeypatch.undo()
    release = threading.Event()
    ran: list[bool | str] = []
    scheduler.schedule("holds the thread", lambda: ran.append(release.wait(SOON)))
    wait_for(lambda: not is_waiting(scheduler))
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    scheduler.schedule("waits", lambda: ran.append("then"))
    assert caplog.messages == ["The scheduler goes on with 1 threads: can't start new thread"]
    release.set()
    wait_for(lambda: ran == [True, "then"])
    scheduler.shutdown()


def _no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_forked_child_inherits_nothing_that_runs(scheduler: ThreadScheduler) -> None:
    ran: list[int] = []
    task = scheduler.schedule("periodic", lambda: ran.append(1), period_ms=1)
    wait_for(lambda: len(ran) > 2)
    with scheduler._lock:  # as if another thread was about to schedule
        child = os.fork()
        if child == 0:
            os._exit(_in_child(scheduler, task.cancel))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    count = len(ran)
    wait_for(lambda: len(ran) > count)


def _in_child(scheduler: ThreadScheduler, cancel: Callable[[], None]) -> int:
    if scheduler._pool is not None:
        return 1
    cancel()
    scheduler.shutdown()
    scheduler.startup()
    ran = threading.Event()
    scheduler.schedule("its own", ran.set)
    if not ran.wait(SOON):
        return 2
    scheduler.shutdown()
    return 0


@pytest.mark.parametrize("threads", [1, 3])
def test_many_tasks_from_many_threads_each_run_once(threads: int) -> None:
    scheduler = ThreadScheduler(threads)
    scheduler.startup()
    counts = [0] * 800
    lock = threading.Lock()

    def count(number: int) -> None:
        with lock:
            counts[number] += 1

    def give(first: int) -> None:
        for number in range(first, 800, 8):
            scheduler.schedule(str(number), lambda number=number: count(number), delay_ms=number % 20)  # type: ignore[misc]

    givers = [threading.Thread(target=give, args=(first,)) for first in range(8)]
    for giver in givers:
        giver.start()
    for giver in givers:
        giver.join()
    wait_for(lambda: sum(counts) >= 800)
    scheduler.shutdown()
    assert counts == [1] * 800


def test_tasks_have_their_last_and_next_runs() -> None:
    clock = ManualClock(1_000_000)
    scheduler = ThreadScheduler(2, clock=clock)
    assert scheduler.tasks() == []
    scheduler.startup()
    try:
        begun, go_on = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            assert go_on.wait(SOON)
            raise StorageError("the disk is gone")

        scheduler.schedule("later", work, delay_ms=500)
        scheduler.schedule("often", work, period_ms=100)
        assert begun.wait(SOON)
        clock.now += 30
        later, often = scheduler.tasks()
        assert (later.name, later.period_ms, later.next_in_ms, later.runs) == ("later", None, 470, 0)
        assert (later.is_running, later.last_run_ago_ms, later.last_took_ms) == (False, None, None)
        assert (often.is_running, often.runs, often.last_run_ago_ms, often.next_in_ms) == (True, 1, 30, None)
        assert often.last_took_ms is None
        go_on.set()
        wait_for(lambda: not scheduler.tasks()[1].is_running)
        often = scheduler.tasks()[1]
        assert (often.period_ms, often.next_in_ms, often.last_took_ms, often.errors) == (100, 70, 30, 1)
    finally:
        go_on.set()
        scheduler.shutdown()


def with_idle_threads(scheduler: ThreadScheduler, count: int) -> None:
    """Let the scheduler start ``count`` threads, which are then idle."""
    together = threading.Barrier(count + 1)

    def meet() -> None:
        together.wait(SOON)

    for _ in range(count):
        scheduler.schedule("together", meet)
    together.wait(SOON)


def test_a_due_task_wakes_few_of_the_idle_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = ThreadScheduler(10)
    scheduler.startup()
    with_idle_threads(scheduler, 10)
    assert scheduler._pool is not None
    changed, waits, runs = scheduler._pool._changed, [], []
    wait = changed.wait

    def counted(timeout: float | None = None) -> bool:
        waits.append(timeout)
        return wait(timeout)

    monkeypatch.setattr(changed, "wait", counted)
    scheduler.schedule("often", lambda: runs.append(1), period_ms=2)
    wait_for(lambda: len(runs) >= 100)
    scheduler.shutdown()
    assert len(waits) < 4 * len(runs)


@pytest.mark.parametrize("seed", range(5))
def test_no_task_is_forgotten_whichever_thread_keeps_the_time(seed: int) -> None:
    scheduler = ThreadScheduler(5)
    scheduler.startup()
    done: list[int] = []

    def add(first: int) -> None:
        chance = random.Random(seed * 10 + first)
        for number in range(first, first + 50):
            scheduler.schedule("one", partial(done.append, number), delay_ms=chance.randrange(30))
            time.sleep(chance.choice([0, 0, 0.001, 0.02]))

    adding = [threading.Thread(target=add, args=(first,)) for first in (0, 50, 100)]
    for thread in adding:
        thread.start()
    for thread in adding:
        thread.join()
    wait_for(lambda: len(done) == 150)
    scheduler.shutdown()
    assert sorted(done) == list(range(150))
