"""Timers on a manual clock; callbacks run in the thread that moves the clock.

Tests of the broker's parts use them in place of ``server.timers.LoopTimers``. Thread rule: one thread.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.testing.held_clock import HeldClock
from tidelog.testing.held_scheduler import HeldScheduler, HeldTask


class HeldTimers:
    def __init__(self, clock: HeldClock) -> None:
        self._scheduler = HeldScheduler(clock)
        self._scheduler.startup()
        self.now_ms = clock.now_ms
        self.monotonic_ms = clock.monotonic_ms

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> HeldTask:
        def run() -> None:
            callback()

        return self._scheduler.schedule("timer", run, delay_ms=max(0, delay_ms))

    def shutdown(self) -> None:
        """Drop all callbacks. Idempotent."""
        self._scheduler.shutdown()
