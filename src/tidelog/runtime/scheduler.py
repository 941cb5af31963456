"""Work in the background, once or at a fixed rate: the scheduler as the engine knows it, and one with threads.

=================  ================================================================================================
a task is          what happens
=================  ================================================================================================
due                a thread runs it; never two runs of one task at once
late               it runs at once; runs that were missed are left out, the next is at the next multiple of its period
failing            the error is counted and, once for each text, logged; a periodic task goes on
cancelled          no run begins any more; one under way ends as it would
not accepted       before ``startup`` and after ``shutdown`` a task is ignored, with a line in the log
=================  ================================================================================================

Threads are daemons, made when there is work no idle one could take, and stay until ``shutdown``, which waits for the
runs under way. A forked child has a scheduler that was not started: it inherits neither tasks nor threads.
Called by: the log manager, reporters of metrics. Thread rule: any thread. Source: Kafka's ``KafkaScheduler``.
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
"""Kafka's ``background.threads``."""

_log = logging.getLogger(__name__)


class ScheduledTask(Protocol):
    @property
    def name(self) -> str: ...

    def cancel(self) -> None:
        """No run begins after this; idempotent. A run under way is not waited for."""
        ...


class Scheduler(Protocol):
    def startup(self) -> None:
        """Accept tasks. RuntimeError if it was started already; after ``shutdown`` it may be started again."""
        ...

    def shutdown(self) -> None:
        """Begin no more runs, forget every task, return when the runs under way have ended; idempotent."""
        ...

    def schedule(
        self, name: str, task: Callable[[], None], *, delay_ms: int = 0, period_ms: int | None = None
    ) -> ScheduledTask:
        """Run ``task`` in ``delay_ms``, then every ``period_ms``; None: once. ValueError for a delay below 0 or a
        period below 1."""
        ...


class ThreadScheduler:
    """A Scheduler over a pool of ``threads`` daemon threads."""

    def __init__(self, threads: int = DEFAULT_THREADS, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """ValueError for fewer than 1 thread."""
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
        """How often each task failed, by its name."""
        return self._errors.counts

    def startup(self) -> None:
        with self._lock:
            if self._pool is not None:
                raise RuntimeError("the scheduler was started already")
            self._pool = TaskPool(self._threads, self._clock, self._errors)

    def shutdown(self) -> None:
        """As Scheduler says. From within a task: its own run is not waited for."""
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
        """At once for what is due; a thread too many ends after its run. ValueError for fewer than 1."""
        with self._lock:
            self._threads = _at_least(1, threads, "threads")
            if self._pool is not None:
                self._pool.resize(threads)

    def _forget(self) -> None:
        """In a forked child: another thread of the parent may have held the lock, and none goes on here."""
        self._lock = threading.Lock()
        self._errors.forget()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.forget()


class _IgnoredTask:
    def __init__(self, name: str) -> None:
        self.name = name

    def cancel(self) -> None:
        """There is nothing to cancel."""


def _at_least(least: int, value: int, name: str) -> int:
    if value < least:
        raise ValueError(f"{name} is {value}; at least {least} is needed")
    return value


_schedulers: weakref.WeakSet[ThreadScheduler] = weakref.WeakSet()


def _forget_in_child() -> None:
    for scheduler in list(_schedulers):
        scheduler._forget()


os.register_at_fork(after_in_child=_forget_in_child)
