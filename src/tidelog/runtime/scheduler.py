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

import logging
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock
from tidelog.runtime.repeated_errors import RepeatedErrors
from tidelog.runtime.task_pool import TaskPool

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
    def is_started(self) -> bool:
        return self._pool is not None

    @property
    def errors(self) -> Counter[str]:
        """The number of failures of each task, by its name."""
        return self._errors.counts

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
