"""The threads and waiting tasks of a ThreadScheduler, from one ``startup`` to its ``shutdown``.

``ThreadScheduler`` has the contract of a task. Threads wait on one condition until the next task is due, but for at
most an hour at a time. Thread rule: any thread. The condition guards all changing state.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable

from tidelog.runtime.clock import Clock
from tidelog.runtime.repeated_errors import RepeatedErrors

_LONGEST_WAIT_MS = 3_600_000
"""Kafka means "never" with a period of 292 million years, which is too long for one wait of a thread."""

_log = logging.getLogger(__name__)


class PoolTask:
    __slots__ = ("_pool", "due_ms", "is_cancelled", "name", "order", "period_ms", "work")

    def __init__(
        self, pool: TaskPool, name: str, work: Callable[[], None], due_ms: int, period_ms: int | None, order: int
    ) -> None:
        self._pool = pool
        self.name = name
        self.work = work
        self.due_ms = due_ms
        self.period_ms = period_ms
        self.order = order
        self.is_cancelled = False

    def cancel(self) -> None:
        self._pool.cancel(self)

    def __lt__(self, other: PoolTask) -> bool:
        """Compare due times, then the sequence in which tasks were added."""
        return (self.due_ms, self.order) < (other.due_ms, other.order)


class TaskPool:
    """A thread that takes a task wakes an idle thread, or starts a new one, to wait for the next task."""

    def __init__(self, limit: int, clock: Clock, errors: RepeatedErrors) -> None:
        self._limit = limit
        self._clock = clock
        self._errors = errors
        self._changed = threading.Condition()
        self._waiting: list[PoolTask] = []  # a heap
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._stopped = False
        self._tasks_made = 0
        self._threads_made = 0

    def add(self, name: str, work: Callable[[], None], due_ms: int, period_ms: int | None) -> PoolTask:
        with self._changed:
            task = PoolTask(self, name, work, due_ms, period_ms, self._tasks_made)
            self._tasks_made += 1
            heapq.heappush(self._waiting, task)
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
        self._waiting.clear()

    def _wake_or_start_thread(self) -> None:
        if not self._waiting:
            return
        if self._idle:
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
        with self._changed:
            while not self._stopped and len(self._threads) <= self._limit:
                wait_ms = self._waiting[0].due_ms - self._clock.monotonic_ms() if self._waiting else _LONGEST_WAIT_MS
                if wait_ms <= 0:
                    task = heapq.heappop(self._waiting)
                    self._wake_or_start_thread()
                    return task
                self._idle += 1
                self._changed.wait(min(wait_ms, _LONGEST_WAIT_MS) / 1000)
                self._idle -= 1
            self._threads.discard(threading.current_thread())
            self._wake_or_start_thread()
            return None

    def _put_back(self, task: PoolTask) -> None:
        with self._changed:
            if task.period_ms is None or task.is_cancelled or self._stopped:
                return
            late_ms = max(0, self._clock.monotonic_ms() - task.due_ms)
            task.due_ms += (late_ms // task.period_ms + 1) * task.period_ms
            heapq.heappush(self._waiting, task)  # no wake-up: this thread looks at the heap next
