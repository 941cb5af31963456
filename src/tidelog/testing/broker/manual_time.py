"""Manual time for a broker: its clock, timers and scheduler stand still until ``advance``.

=====================================  ==============================================================================
a wait                                 ends
=====================================  ==============================================================================
longer than a second: sessions,        when the clock has moved so far
transactions, retention, idleness
up to a second: a fetch without        then, or when real time has passed without the clock: a client that polls must
records, a pause between two tries     get its response, even if the test does not move time
=====================================  ==============================================================================

The clock stops at each moment with due work, and waits for its effects, also in threads, before time continues. A timer
that this work sets therefore runs within the same ``advance``. Thread rule: the event loop only, except for
``ManualTime.clock``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from tidelog.runtime.timers import TimerHandle
from tidelog.testing.manual_clock import ManualClock
from tidelog.testing.manual_timers import ManualTimers

SHORT_MS: Final = 1000
"""The longest wait that also ends in real time."""
MANUAL_TIME_CONFIGS: Final = {
    "connections.max.idle.ms": "-1",
    "log.flush.offset.checkpoint.interval.ms": "300000",
    "log.flush.start.offset.checkpoint.interval.ms": "300000",
    "replica.high.watermark.checkpoint.interval.ms": "300000",
}
"""Settings for a broker whose time moves by days: clients stay connected, and checkpoints do not take most of the work.
"""
_QUIET_TURNS: Final = 8
"""The number of turns of the loop without work in any thread, after which no work is in progress."""


class ClientTimers:
    """Timers of a loop with a manual clock."""

    def __init__(self, clock: ManualClock, loop: asyncio.AbstractEventLoop) -> None:
        self._held = ManualTimers(clock)
        self._loop = loop
        self.now_ms = clock.now_ms
        self.monotonic_ms = clock.monotonic_ms

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> TimerHandle:
        if delay_ms > SHORT_MS:
            return self._held.call_later(delay_ms, callback)
        return _ShortTimer(self._held, self._loop, delay_ms, callback)

    def shutdown(self) -> None:
        """Drop the callbacks that wait for the manual clock."""
        self._held.shutdown()


class _ShortTimer:
    """A pending callback, due at a manual or a real time, whichever comes first."""

    def __init__(
        self, held: ManualTimers, loop: asyncio.AbstractEventLoop, delay_ms: int, callback: Callable[[], object]
    ) -> None:
        self._callback = callback
        self._held = held.call_later(delay_ms, self._run)
        self._real = loop.call_later(max(0, delay_ms) / 1000, self._run)

    def cancel(self) -> None:
        """Cancel the callback. Idempotent."""
        self._held.cancel()
        self._real.cancel()

    def _run(self) -> None:
        self.cancel()
        self._callback()


class WatchedPool(ThreadPoolExecutor):
    """A thread pool that knows its unfinished work."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads, thread_name_prefix="tidelog-io")
        self.pending: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(fn, *args, **kwargs)
        self.pending.add(future)
        future.add_done_callback(self.pending.discard)
        return future


class ManualTime:
    """The time of one broker, over all its starts."""

    def __init__(self) -> None:
        """The clock begins at the current time."""
        self.clock = ManualClock(int(time.time() * 1000))

    async def advance(self, duration_ms: int, pool: WatchedPool) -> None:
        """Let ``duration_ms`` pass, with all due work on the way."""
        clock = self.clock
        end_ms = clock.monotonic_ms() + duration_ms
        await _quiet(pool)
        while (due_ms := clock.next_due_ms()) is not None and due_ms <= end_ms:
            clock.sleep_ms(max(0, due_ms - clock.monotonic_ms()))
            await _quiet(pool)
        clock.sleep_ms(max(0, end_ms - clock.monotonic_ms()))


async def _quiet(pool: WatchedPool) -> None:
    """Return when no work is in progress, on the loop or in the pool."""
    turns = 0
    while turns < _QUIET_TURNS:
        if pending := list(pool.pending):
            await asyncio.wait([asyncio.wrap_future(future) for future in pending])
            turns = 0
        await asyncio.sleep(0)
        turns += 1
