"""Schedulers of background work: the engine's interface, and an implementation with threads.

=================  ================================================================================================
a task is          what happens
=================  ================================================================================================
due                a thread runs it; two runs of one task never overlap
late               it runs at once; missed runs are skipped, and the next is at the next multiple of its period
failing            the error is counted and each text is logged once; a periodic task continues
cancelled          no run begins after this; a run in progress completes
not accepted       before ``startup`` and after ``shutdown`` a task is ignored, with a line in the log
=================  ================================================================================================

Threads are daemons. One is started if there is work and no idle thread, and it stays until ``shutdown``, which waits
for runs in progress. In a forked child a scheduler is not started, and has neither tasks nor threads. Thread rule: any
thread. Source: Kafka's ``KafkaScheduler``.
"""

from __future__ import annotations

import heapq
import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock
from tidelog.runtime.repeated_errors import RepeatedErrors

DEFAULT_THREADS = 10
"""The default of Kafka's ``background.threads``."""

_log = logging.getLogger(__name__)


class ScheduledTask(Protocol):
    @property
    def name(self) -> str: ...

    def cancel(self) -> None:
        """Prevent further runs, without a wait for a run in progress. Idempotent."""
        ...


class Scheduler(Protocol):
    def startup(self) -> None:
        """Accept tasks. Raise RuntimeError if the scheduler is started. A restart after ``shutdown`` is allowed."""
        ...

    def shutdown(self) -> None:
        """Begin no runs, forget every task, and return when the runs in progress have ended. Idempotent."""
        ...

    def schedule(
        self, name: str, task: Callable[[], None], *, delay_ms: int = 0, period_ms: int | None = None
    ) -> ScheduledTask:
        """Run ``task`` after ``delay_ms`` and then every ``period_ms``, or once for None.

        Raise ValueError for a delay below 0 or a period below 1.
        """
        ...

    def set_threads(self, threads: int) -> None:
        """Change the number of threads that run tasks. Raise ValueError for fewer than 1."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """A task at one moment, with the runs of its name."""

    name: str
    period_ms: int | None
    """None for a task that runs once."""
    next_in_ms: int | None
    """The time until the next run, negative if it is late; None if no run is planned."""
    is_running: bool
    runs: int
    errors: int
    last_run_ago_ms: int | None
    """The time since the last run began, or None before the first one."""
    last_took_ms: int | None
    """The duration of the last run that has ended."""


@dataclass(slots=True)
class _Runs:
    """The runs of all tasks with one name. A task that plans its own next run is a new task each time."""

    begun: int = 0
    running: int = 0
    last_begun_ms: int = 0
    last_took_ms: int | None = None


class ThreadScheduler:
    """A Scheduler over a pool of ``threads`` daemon threads."""

    def __init__(self, threads: int = DEFAULT_THREADS, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Raises ValueError for fewer than 1 thread."""
        self._threads = _at_least(1, threads, "threads")
        self._clock = clock
        self._errors = RepeatedErrors(_log, "Background task %s failed: %s")
        self._pool: TaskPool | None = None
        self._lock = threading.Lock()
        _schedulers.add(self)

    @property
    def errors(self) -> Counter[str]:
        """The number of failures of each task, by its name."""
        return self._errors.counts

    def tasks(self) -> list[TaskReport]:
        """Return the waiting and running tasks, and the names of earlier tasks, sorted by name."""
        with self._lock:
            pool = self._pool
        return [] if pool is None else pool.reports()

    def startup(self) -> None:
        with self._lock:
            if self._pool is not None:
                raise RuntimeError("the scheduler was started already")
            self._pool = TaskPool(self._threads, self._clock, self._errors)

    def shutdown(self) -> None:
        """Shut down as ``Scheduler`` does. A task that calls this does not wait for its own run."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.stop()

    def schedule(
        self, name: str, task: Callable[[], None], *, delay_ms: int = 0, period_ms: int | None = None
    ) -> ScheduledTask:
        _at_least(0, delay_ms, "delay_ms")
        if period_ms is not None:
            _at_least(1, period_ms, "period_ms")
        with self._lock:
            if self._pool is not None:
                return self._pool.add(name, task, self._clock.monotonic_ms() + delay_ms, period_ms)
        _log.info("The scheduler is not running: task %s is ignored", name)
        return _IgnoredTask(name)

    def set_threads(self, threads: int) -> None:
        """Change the number of threads. Raise ValueError for fewer than 1.

        Due tasks use new threads at once. A surplus thread ends after its run.
        """
        with self._lock:
            self._threads = _at_least(1, threads, "threads")
            if self._pool is not None:
                self._pool.resize(threads)

    def _forget(self) -> None:
        """Reset in a forked child: it has no pool threads, and a thread of the parent may have held the lock."""
        self._lock = threading.Lock()
        self._errors.forget()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.forget()


class _IgnoredTask:
    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """Return at once: the task was never accepted."""


def _at_least(least: int, value: int, name: str) -> int:
    if value < least:
        raise ValueError(f"{name} is {value}; at least {least} is needed")
    return value


_schedulers: weakref.WeakSet[ThreadScheduler] = weakref.WeakSet()


def _forget_in_child() -> None:
    for scheduler in list(_schedulers):
        scheduler._forget()


os.register_at_fork(after_in_child=_forget_in_child)


_LONGEST_WAIT_MS = 3_600_000
"""Kafka means "never" with a period of 292 million years, which is too long for one wait of a thread."""


class PoolTask:
    __slots__ = ("_pool", "begun_ms", "due_ms", "is_cancelled", "name", "order", "period_ms", "work")

    def __init__(
        self, pool: TaskPool, name: str, work: Callable[[], None], due_ms: int, period_ms: int | None, order: int
    ) -> None:
        self._pool = pool
        self.name = name
        self.work = work
        self.due_ms = due_ms
        self.begun_ms = 0
        """The start of its last run."""
        self.period_ms = period_ms
        self.order = order
        self.is_cancelled = False

    def cancel(self) -> None:
        self._pool.cancel(self)

    def __lt__(self, other: PoolTask) -> bool:
        """Compare due times, then the sequence in which tasks were added."""
        return (self.due_ms, self.order) < (other.due_ms, other.order)


class TaskPool:
    """The threads and waiting tasks of a ThreadScheduler, from one ``startup`` to its ``shutdown``.

    One idle thread keeps the time: it waits until the next task is due. The others wait until a thread that takes a
    task wakes one of them to keep the time. If all are busy, it starts a new one. Threads wait on one condition, which
    guards all changing state.
    """

    def __init__(self, limit: int, clock: Clock, errors: RepeatedErrors) -> None:
        self._limit = limit
        self._clock = clock
        self._errors = errors
        self._changed = threading.Condition()
        self._waiting: list[PoolTask] = []  # a heap
        self._runs: dict[str, _Runs] = {}
        """The runs by task name. Names are constants of the code, so they are few."""
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._timekeeper: threading.Thread | None = None
        """The idle thread that waits for the next task. None if the next one has changed, so that another must wait."""
        self._stopped = False
        self._tasks_made = 0
        self._threads_made = 0

    def add(self, name: str, work: Callable[[], None], due_ms: int, period_ms: int | None) -> PoolTask:
        with self._changed:
            task = PoolTask(self, name, work, due_ms, period_ms, self._tasks_made)
            self._tasks_made += 1
            self._push(task)
            try:
                self._wake_or_start_thread()
            except RuntimeError:  # no thread exists, and none can be started
                self.cancel(task)
                raise
            return task

    def cancel(self, task: PoolTask) -> None:
        with self._changed:
            task.is_cancelled = True
            if task in self._waiting:
                self._waiting.remove(task)
                heapq.heapify(self._waiting)

    def reports(self) -> list[TaskReport]:
        with self._changed:
            now_ms = self._clock.monotonic_ms()
            planned: dict[str, PoolTask] = {}  # the next one of several with one name
            for task in self._waiting:
                if task.name not in planned or task.due_ms < planned[task.name].due_ms:
                    planned[task.name] = task
            names = sorted(planned.keys() | self._runs.keys())
            return [self._report(name, planned.get(name), now_ms) for name in names]

    def _report(self, name: str, task: PoolTask | None, now_ms: int) -> TaskReport:
        runs = self._runs.get(name) or _Runs()
        return TaskReport(
            name=name,
            period_ms=None if task is None else task.period_ms,
            next_in_ms=None if task is None else task.due_ms - now_ms,
            is_running=runs.running > 0,
            runs=runs.begun,
            errors=self._errors.counts[name],
            last_run_ago_ms=now_ms - runs.last_begun_ms if runs.begun else None,
            last_took_ms=runs.last_took_ms,
        )

    def resize(self, limit: int) -> None:
        with self._changed:
            self._limit = limit
            self._wake_or_start_thread()
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify_all()
            threads = self._threads - {threading.current_thread()}
        for thread in threads:
            thread.join()

    def forget(self) -> None:
        """Reset the pool in a forked child, where a thread of the parent may have held the lock."""
        self._changed = threading.Condition()
        self._timekeeper = None
        self._waiting.clear()

    def _push(self, task: PoolTask) -> None:
        heapq.heappush(self._waiting, task)
        if self._waiting[0] is task:
            self._timekeeper = None  # it waits for a later task

    def _wake_or_start_thread(self) -> None:
        if not self._waiting:
            return
        if self._idle:
            if self._timekeeper is None:
                self._changed.notify()
        elif len(self._threads) < self._limit:
            thread = threading.Thread(target=self._run, name=f"tidelog-scheduler-{self._threads_made}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no further thread can start; the others continue
                if not self._threads:
                    raise
                _log.warning("The scheduler goes on with %d threads: %s", len(self._threads), error)
                return
            self._threads_made += 1
            self._threads.add(thread)

    def _run(self) -> None:
        while (task := self._take()) is not None:
            try:
                task.work()
            except BaseException as error:  # no error may end a periodic task or its thread
                self._errors.note(task.name, error)
            self._put_back(task)

    def _take(self) -> PoolTask | None:
        """Wait for the next due task. Return None if this thread must end."""
        own = threading.current_thread()
        with self._changed:
            while not self._stopped and len(self._threads) <= self._limit:
                wait_ms = self._waiting[0].due_ms - self._clock.monotonic_ms() if self._waiting else _LONGEST_WAIT_MS
                if wait_ms <= 0:
                    task = heapq.heappop(self._waiting)
                    runs = self._runs.setdefault(task.name, _Runs())
                    runs.begun, runs.running = runs.begun + 1, runs.running + 1
                    runs.last_begun_ms = task.begun_ms = self._clock.monotonic_ms()
                    self._wake_or_start_thread()
                    return task
                self._idle += 1
                if self._timekeeper is None:
                    self._timekeeper = own
                    self._changed.wait(min(wait_ms, _LONGEST_WAIT_MS) / 1000)
                else:
                    self._changed.wait()
                self._idle -= 1
                if self._timekeeper is own:
                    self._timekeeper = None
            self._threads.discard(own)
            self._wake_or_start_thread()
            return None

    def _put_back(self, task: PoolTask) -> None:
        with self._changed:
            runs = self._runs[task.name]
            runs.running, runs.last_took_ms = runs.running - 1, self._clock.monotonic_ms() - task.begun_ms
            if task.period_ms is None or task.is_cancelled or self._stopped:
                return
            late_ms = max(0, self._clock.monotonic_ms() - task.due_ms)
            task.due_ms += (late_ms // task.period_ms + 1) * task.period_ms
            self._push(task)  # no wake-up: this thread looks at the heap next
