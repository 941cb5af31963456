"""A scheduler without threads: tasks run in the thread that moves its clock, in the order of the times they are due.

Two that are due at once run in the order they were scheduled. A periodic task's next run is set before it runs, so one
that fails goes on; its error comes out of the call that moved the clock. A task that is scheduled without a delay
waits for the next move too, be it by 0 ms: the caller may hold a lock.

State: *new* -> *started* -> *shut down*. Before the start tasks gather and none runs; after the shutdown none is taken.
Called by: tests, in place of ``runtime.ThreadScheduler``. Thread rule: the one thread that moves the clock, though a
task may be scheduled from any. Source: Kafka's ``MockScheduler``, which runs what has no delay at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.testing.held_clock import HeldClock


@dataclass(slots=True, kw_only=True, eq=False)
class HeldTask:
    """A task to come; ``due_ms`` by the monotonic clock."""

    name: str
    run: Callable[[], None]
    due_ms: int
    period_ms: int | None
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Idempotent."""
        self.is_cancelled = True


class HeldScheduler:
    """A Scheduler that follows ``clock``."""

    def __init__(self, clock: HeldClock) -> None:
        self._clock = clock
        self._tasks: list[HeldTask] = []
        self._is_started = False
        self._is_shut_down = False
        clock.follow(self)

    def startup(self) -> None:
        """RuntimeError the second time."""
        if self._is_started or self._is_shut_down:
            raise RuntimeError("the scheduler was started before")
        self._is_started = True

    def shutdown(self) -> None:
        """Nothing runs any more; idempotent."""
        self._is_shut_down = True
        self._is_started = False
        self._tasks.clear()

    def schedule(
        self, name: str, task: Callable[[], None], *, delay_ms: int = 0, period_ms: int | None = None
    ) -> HeldTask:
        """Run ``task`` in ``delay_ms``, and every ``period_ms`` from then on where one is given."""
        due_ms = self._clock.monotonic_ms() + max(0, delay_ms)
        made = HeldTask(name=name, run=task, due_ms=due_ms, period_ms=period_ms, is_cancelled=self._is_shut_down)
        if not self._is_shut_down:
            self._tasks.append(made)
        return made

    @property
    def tasks(self) -> list[HeldTask]:
        """What is still to come, soonest first."""
        self._tasks = [task for task in self._tasks if not task.is_cancelled]
        return sorted(self._tasks, key=lambda task: task.due_ms)

    @property
    def names(self) -> list[str]:
        """Of the tasks to come, soonest first."""
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
            self._tasks.append(task)  # behind those that are due at the same time
        task.run()
