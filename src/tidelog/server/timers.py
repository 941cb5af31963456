"""Time for the code of the loop: what the clock shows, and callbacks to come. A parameter, so that a test can move it.

Called by: everything in the broker that waits. Thread rule: the loop's; only the clock may be asked by any thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from tidelog.runtime import Clock


class TimerHandle(Protocol):
    def cancel(self) -> None:
        """The callback will not come; idempotent."""
        ...


class Timers(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch, as records carry them; may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never falls. What deadlines are told by."""
        ...

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> TimerHandle:
        """Call ``callback`` on the loop, once, when ``delay_ms`` have passed; never within this call."""
        ...


class LoopTimers:
    """Timers of an event loop."""

    __slots__ = ("_call_later", "monotonic_ms", "now_ms")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._call_later = loop.call_later
        self.now_ms = clock.now_ms
        self.monotonic_ms = clock.monotonic_ms

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> TimerHandle:
        return self._call_later(max(0, delay_ms) / 1000, callback)
