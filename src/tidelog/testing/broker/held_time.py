"""Time for a broker that a test moves: its clock, its timers and its scheduler stand still until ``advance``.

=====================================  ==============================================================================
what waits                             goes on
=====================================  ==============================================================================
longer than a second: sessions,        when the clock is moved so far
transactions, retention, idleness
up to a second: a fetch without        then, or when the machine's time has passed, without the clock: a client that
records, a pause between two tries     asks for records must get its answer, whether the test moves time or not
=====================================  ==============================================================================

On its way the clock stops at each moment something is due; what follows from it, in threads too, is carried out before
time goes on. So a timer that is set by the work of another comes in its turn within the same ``advance``.
Called by: the in-process broker. Thread rule: the loop's, but for ``HeldTime.clock``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from tidelog.server.timers import TimerHandle
from tidelog.testing.held_clock import HeldClock
from tidelog.testing.held_timers import HeldTimers

SHORT_MS: Final = 1000
"""What waits no longer does not wait for the test."""
HELD_CONFIGS: Final = {
    "connections.max.idle.ms": "-1",
    "log.flush.offset.checkpoint.interval.ms": "300000",
    "log.flush.start.offset.checkpoint.interval.ms": "300000",
    "replica.high.watermark.checkpoint.interval.ms": "300000",
}
"""Of a broker whose time is moved by days: its clients stay, and what is written every few seconds else would take most
of the work."""
_QUIET_TURNS: Final = 8
"""Of the loop, one after the other, in which no thread has anything to do: nothing is under way any more."""


class ClientTimers:
    """Timers of a loop whose clock is held."""

    def __init__(self, clock: HeldClock, loop: asyncio.AbstractEventLoop) -> None:
        self._held = HeldTimers(clock)
        self._loop = loop
        self.now_ms = clock.now_ms
        self.monotonic_ms = clock.monotonic_ms

    def call_later(self, delay_ms: int, callback: Callable[[], object]) -> TimerHandle:
        if delay_ms > SHORT_MS:
            return self._held.call_later(delay_ms, callback)
        return _ShortTimer(self._held, self._loop, delay_ms, callback)

    def shutdown(self) -> None:
        """Nothing that is held comes any more."""
        self._held.shutdown()


class _ShortTimer:
    """One callback to come, at the one time or the other."""

    def __init__(
        self, held: HeldTimers, loop: asyncio.AbstractEventLoop, delay_ms: int, callback: Callable[[], object]
    ) -> None:
        self._callback = callback
        self._held = held.call_later(delay_ms, self._run)
        self._real = loop.call_later(max(0, delay_ms) / 1000, self._run)

    def cancel(self) -> None:
        """Idempotent."""
        self._held.cancel()
        self._real.cancel()

    def _run(self) -> None:
        self.cancel()
        self._callback()


class WatchedPool(ThreadPoolExecutor):
    """Threads of which is known whether they have something to do."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads, thread_name_prefix="tidelog-io")
        self.pending: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(fn, *args, **kwargs)
        self.pending.add(future)
        future.add_done_callback(self.pending.discard)
        return future


class HeldTime:
    """The time of one broker, over all its starts."""

    def __init__(self) -> None:
        """It begins now."""
        self.clock = HeldClock(int(time.time() * 1000))

    async def advance(self, duration_ms: int, pool: WatchedPool) -> None:
        """Let so much time pass, with all that is due on the way."""
        clock = self.clock
        end_ms = clock.monotonic_ms() + duration_ms
        await _quiet(pool)
        while (due_ms := clock.next_due_ms()) is not None and due_ms <= end_ms:
            clock.sleep_ms(max(0, due_ms - clock.monotonic_ms()))
            await _quiet(pool)
        clock.sleep_ms(max(0, end_ms - clock.monotonic_ms()))


async def _quiet(pool: WatchedPool) -> None:
    """Return when nothing is under way, on the loop or in the pool."""
    turns = 0
    while turns < _QUIET_TURNS:
        if pending := list(pool.pending):
            await asyncio.wait([asyncio.wrap_future(future) for future in pending])
            turns = 0
        await asyncio.sleep(0)
        turns += 1
