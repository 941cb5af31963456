"""A clock that stands still: a test moves it, or who sleeps by it.

Whoever follows it (``HeldScheduler``) is told of time that passes: on the way the clock stands at each moment something
is due, which is done in the thread that moves it, and goes on from there. What is done may move the clock itself.
Setting it back is the wall clock's jump: nothing happens, and the monotonic clock stays.

Called by: tests. Thread rule: any thread may ask and move it; while one does what was due, others only move the hands.
"""

from __future__ import annotations

import threading
from typing import Protocol


class Follower(Protocol):
    """What has something to do at certain times, told by the monotonic clock."""

    def next_due_ms(self) -> int | None:
        """When ``run_next`` wants to be called; None where nothing is planned."""
        ...

    def run_next(self) -> None: ...


class HeldClock:
    """``now`` in milliseconds since the epoch; a Clock."""

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
        """Let so much time pass. An error of what was due comes out here, the clock standing where it happened."""
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
        """When, by the monotonic clock, something is due next; None where nothing is planned."""
        return min((due for one in self._followers if (due := one.next_due_ms()) is not None), default=None)

    def follow(self, follower: Follower) -> None:
        """Tell ``follower`` of the time that passes from here on."""
        self._followers.append(follower)

    def _next(self, end: int) -> Follower | None:
        """Whose turn it is next, up to and with ``end``, or later where what was done took its time."""
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
