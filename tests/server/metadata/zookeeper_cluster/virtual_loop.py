"""An event loop with virtual time: if no work is left to do, the time jumps to the next timer.

A test of minutes takes milliseconds, and every run is the same. A wait that can never end is an error at once. The loop
has no sockets and no threads. Thread rule: one thread.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from tidelog.runtime.timers import LoopTimers

T = TypeVar("T")

NOW_MS: Final = 1_700_000_000_000
"""The time at which each loop begins."""


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._seconds = 0.0
        self.errors: list[str] = []
        """The errors that no task has handled."""
        super().__init__(_NoFiles(self._pass))
        self.set_exception_handler(self._note_error)

    def time(self) -> float:
        return self._seconds

    def _pass(self, seconds: float) -> None:
        self._seconds += seconds

    def _note_error(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        self.errors.append(f"{context['message']}: {context.get('exception')!r}")


class _NoFiles(selectors.SelectSelector):
    """The selector of a loop without files: it lets the time pass in which the loop would wait."""

    def __init__(self, let_pass: Callable[[float], None]) -> None:
        super().__init__()
        self._let_pass = let_pass

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("every task waits, and there is no timer")
        self._let_pass(timeout)
        return []


class LoopClock:
    """A clock with the time of a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return NOW_MS + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return round(self._loop.time() * 1000)

    def sleep_ms(self, duration_ms: int) -> None:
        raise AssertionError("nothing sleeps on the event loop")


def timers_of(loop: asyncio.AbstractEventLoop) -> LoopTimers:
    return LoopTimers(loop, LoopClock(loop))


def run_virtually(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on a new loop. Fail if a task or a timer is left at the end, or an error that no task
    has handled."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(_alone(work))
    assert not loop.errors, loop.errors
    return result


async def _alone(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    result = await work()
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks are left: {left}"
    timers = [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
    assert not timers, f"timers are left: {timers}"
    return result
