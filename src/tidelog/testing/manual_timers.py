"""Timers on a manual clock; callbacks run in the thread that moves the clock.

Tests of the broker's parts use them in place of ``server.timers.LoopTimers``. Thread rule: one thread.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.testing.manual_clock import ManualClock
from tidelog.testing.manual_scheduler import ManualScheduler, ManualTask


class ManualTimers:
    def __init__(self, clock: ManualClock) -> None:
        self._scheduler = ManualScheduler(clock)
        self._scheduler.startup()
        self.now_ms = clock.now_ms
        self.monotonic_ms = clock.monotonic_ms

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> ManualTask:
        def run() -> None:
            callback()

        return self._scheduler.schedule("timer", run, delay_ms=max(0, delay_ms))

    def shutdown(self) -> None:
        """Drop all callbacks. Idempotent."""
        self._scheduler.shutdown()
