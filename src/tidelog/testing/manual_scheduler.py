"""A scheduler without threads: tasks run in the thread that moves its clock, sorted by due time.

Tasks with the same due time run as they were scheduled. A periodic task is scheduled again before it runs, so it
continues after a failure. The error is raised from the call that moved the clock. A task without a delay also waits for
the next move, even of 0 ms, because the caller may hold a lock.

A scheduler is *new*, *started*, then *shut down*. Before the start tasks are collected and none runs. After the
shutdown none is accepted. Tests use it in place of ``runtime.ThreadScheduler``. Thread rule: the thread that moves the
clock; any thread may schedule a task. Source: Kafka's ``MockScheduler``, which runs tasks without a delay at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.testing.manual_clock import ManualClock


@dataclass(slots=True, kw_only=True, eq=False)
class ManualTask:
    """A pending task. ``due_ms`` is a time of the monotonic clock."""

    name: str
    run: Callable[[], None]
    due_ms: int
    period_ms: int | None
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Prevent the task from running. Idempotent."""
        self.is_cancelled = True


class ManualScheduler:
    """A Scheduler that follows ``clock``."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._tasks: list[ManualTask] = []
        self._is_started = False
        self._is_shut_down = False
        clock.follow(self)

    def startup(self) -> None:
        """Start the scheduler. Raise RuntimeError the second time."""
        if self._is_started or self._is_shut_down:
            raise RuntimeError("the scheduler was started before")
        self._is_started = True

    def shutdown(self) -> None:
        """Drop all tasks and accept no new ones. Idempotent."""
        self._is_shut_down = True
        self._is_started = False
        self._tasks.clear()

    def schedule(
        self, name: str, task: Callable[[], None], *, delay_ms: int = 0, period_ms: int | None = None
    ) -> ManualTask:
        """Run ``task`` after ``delay_ms``, and then every ``period_ms`` if it is given."""
        due_ms = self._clock.monotonic_ms() + max(0, delay_ms)
        made = ManualTask(name=name, run=task, due_ms=due_ms, period_ms=period_ms, is_cancelled=self._is_shut_down)
        if not self._is_shut_down:
            self._tasks.append(made)
        return made

    def set_threads(self, threads: int) -> None:
        """Return at once: the clock runs the tasks."""

    @property
    def tasks(self) -> list[ManualTask]:
        """Pending tasks, soonest first."""
        self._tasks = [task for task in self._tasks if not task.is_cancelled]
        return sorted(self._tasks, key=lambda task: task.due_ms)

    @property
    def names(self) -> list[str]:
        """Names of the pending tasks, soonest first."""
        return [task.name for task in self.tasks]

    # --- for the clock ---

    def next_due_ms(self) -> int | None:
        tasks = self.tasks if self._is_started else []
        return tasks[0].due_ms if tasks else None

    def run_next(self) -> None:
        task = self.tasks[0]
        self._tasks.remove(task)
        if task.period_ms is not None:
            task.due_ms += max(1, task.period_ms)
            self._tasks.append(task)  # behind tasks with the same due time
        task.run()
