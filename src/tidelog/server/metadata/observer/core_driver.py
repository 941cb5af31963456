"""A driver of a core without I/O: one event after the other, and the commands of each before the next event.

An event is a call of the core with the current time. It is posted by a timer, by the end of a request, or by the owner.
``run`` carries out the commands in sequence, and waits for the disk where a command needs it. Requests run in tasks of
their own, which post their end. Thread rule: the event loop only.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, NoReturn, TypeVar

Command = TypeVar("Command")


class CoreDriver(ABC, Generic[Command]):
    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._events: asyncio.Queue[Callable[[int], Iterable[Command]]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    @abstractmethod
    def _due_ms(self) -> int | None:
        """The time of the next ``_tick``, or None if nothing is due."""

    @abstractmethod
    def _tick(self, now_ms: int) -> Iterable[Command]: ...

    @abstractmethod
    async def _carry_out(self, command: Command) -> Iterable[Command]:
        """Carry out a command, and return the commands that follow from its end."""

    def post(self, event: Callable[[int], Iterable[Command]]) -> None:
        """Let the core see an event, with the time of that moment."""
        self._events.put_nowait(event)

    async def run(self) -> None:
        """Handle events until the task is cancelled. Raise the error of a command, or an unexpected one of a
        request."""
        while True:
            event = await self._next_event()
            await self._carry_out_all(event(self._monotonic_ms()))

    async def close(self) -> None:
        """Cancel the requests under way. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.post(lambda _now_ms: _raise(error))

    async def _carry_out_all(self, commands: Iterable[Command]) -> None:
        for command in commands:
            await self._carry_out_all(await self._carry_out(command))

    async def _next_event(self) -> Callable[[int], Iterable[Command]]:
        due_ms = self._due_ms
        timeout_s = None if due_ms is None else max(0, due_ms - self._monotonic_ms()) / 1000
        try:
            async with asyncio.timeout(timeout_s):
                return await self._events.get()
        except TimeoutError:
            return self._tick


def _raise(error: BaseException) -> NoReturn:
    raise error
