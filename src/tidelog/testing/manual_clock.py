"""A manual clock: it stands still until a test moves it, or code sleeps on it.

A move notifies the followers (``ManualScheduler``). The clock stops at each moment with due work, does the work in the
thread that moves it, and continues. The work may move the clock itself. Setting the clock back is a jump of the wall
clock: no work is done, and the monotonic clock stays. Thread rule: any thread may read and move the clock. While one
thread does due work, other threads only change the time.
"""

from __future__ import annotations

import threading
from typing import Protocol


class Follower(Protocol):
    """An object with work at certain times of the monotonic clock."""

    def next_due_ms(self) -> int | None:
        """Return the time for the next call of ``run_next``, or None."""
        ...

    def run_next(self) -> None: ...


class ManualClock:
    """A Clock. ``now`` is in milliseconds since the epoch."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._monotonic = now
        self._followers: list[Follower] = []
        self._hands = threading.Lock()
        self._is_under_way = False

    @property
    def now(self) -> int:
        return self._now

    @now.setter
    def now(self, now: int) -> None:
        if now < self._now:
            self._now = now
        else:
            self.sleep_ms(now - self._now)

    def now_ms(self) -> int:
        return self._now

    def monotonic_ms(self) -> int:
        return self._monotonic

    def sleep_ms(self, duration_ms: int) -> None:
        """Move the clock forward and do the due work. An error of the work is raised, and the clock stops there."""
        with self._hands:
            end = self._monotonic + duration_ms
            if self._is_under_way:
                self._turn_to(end)
                return
            self._is_under_way = True
        try:
            while (follower := self._next(end)) is not None:
                self._turn_to(follower.next_due_ms() or 0)
                follower.run_next()
            self._turn_to(end)
        finally:
            self._is_under_way = False

    def next_due_ms(self) -> int | None:
        """Return the monotonic time of the next due work, or None."""
        return min((due for one in self._followers if (due := one.next_due_ms()) is not None), default=None)

    def follow(self, follower: Follower) -> None:
        """Notify ``follower`` of time that passes from now on."""
        self._followers.append(follower)

    def _next(self, end: int) -> Follower | None:
        """Return the follower with the next work up to ``end``, or up to the current time if work has moved it on."""
        if not self._followers:
            return None
        end = max(end, self._monotonic)
        waiting = [
            (due, number) for number, one in enumerate(self._followers) if (due := one.next_due_ms()) is not None
        ]
        if not waiting or min(waiting)[0] > end:
            return None
        return self._followers[min(waiting)[1]]

    def _turn_to(self, monotonic_ms: int) -> None:
        passed = max(0, monotonic_ms - self._monotonic)
        self._monotonic += passed
        self._now += passed
