"""Time for code on the event loop: the clock and callbacks. Tests replace it with a manual one.

Thread rule: the event loop only; any thread may read the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from tidelog.runtime import Clock


class TimerHandle(Protocol):
    def cancel(self) -> None:
        """Cancel the callback; idempotent."""
        ...


class Timers(Protocol):
    def now_ms(self) -> int:
        """Return milliseconds since the epoch, as records carry them. They may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds from an arbitrary start. They never decrease: use them for deadlines."""
        ...

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> TimerHandle:
        """Call ``callback`` on the loop, once, after ``delay_ms``; never within this call."""
        ...


class LoopTimers:
    """The timers of an asyncio event loop."""

    __slots__ = ("_call_later", "monotonic_ms", "now_ms")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._call_later = loop.call_later
        self.now_ms = clock.now_ms
        self.monotonic_ms = clock.monotonic_ms

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> TimerHandle:
        return self._call_later(max(0, delay_ms) / 1000, callback)
