"""Time for code on the event loop: the clock, callbacks and pauses. Tests replace it with a manual one.

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


Key = tuple[str, ...]


class KeyedTimers:
    """Timers by key: setting a timer replaces the timer with the same key. ``cancel_all`` ends them together.

    Keys are tuples such as ``("session", group_id, member_id)``. Source: Kafka's ``CoordinatorTimer``.
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._handles: dict[Key, TimerHandle] = {}

    def now_ms(self) -> int:
        return self._timers.now_ms()

    def set(self, key: Key, delay_ms: int, callback: Callable[[], None]) -> None:
        """Call ``callback`` in ``delay_ms``. Cancel the timer that was set under ``key``."""
        self.cancel(key)

        def run() -> None:
            del self._handles[key]
            callback()

        self._handles[key] = self._timers.call_later(delay_ms, run)

    def is_set(self, key: Key) -> bool:
        return key in self._handles

    def cancel(self, key: Key) -> None:
        """Cancel the key's timer. Idempotent."""
        handle = self._handles.pop(key, None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        while self._handles:
            self._handles.popitem()[1].cancel()


async def pause(timers: Timers, duration_ms: int) -> None:
    """Sleep for ``duration_ms``. Cancellation leaves no timer behind."""
    over = asyncio.Event()
    handle = timers.call_later(duration_ms, over.set)
    try:
        await over.wait()
    finally:
        handle.cancel()
