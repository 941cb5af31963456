"""Ways to run work off the event loop or next to other tasks, and to give other tasks a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, ParamSpec, Protocol, TypeVar

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")


class InThread(Protocol):
    """A function that runs slow work in a background thread."""

    def __call__(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Awaitable[Result]: ...


Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""A function that runs a coroutine as a task on the loop until it ends or the broker stops. An error is logged."""


async def yielding_to_loop(items: Iterable[Item], size: int = 500) -> AsyncIterator[Item]:
    """Yield the items one by one. After each ``size`` of them, let the loop run other tasks."""
    for number, item in enumerate(items, 1):
        yield item
        if number % size == 0:
            await asyncio.sleep(0)


class ShieldedTasks:
    """Tasks that run to their end even if the client disconnects. Thread rule: the event loop only.

    A closed connection cancels its requests. A started write must not be cancelled: memory would miss a record of the
    log, or a decided transaction would get no markers. So each runs in its own task, and the request only waits.
    """

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def run_to_end(self, operation: Coroutine[Any, Any, Result]) -> Result:
        """Run the operation to its end. Return its result or raise its error, if the request still waits."""
        task = asyncio.get_running_loop().create_task(operation)
        self._running.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def cancel(self) -> None:
        """Cancel all running operations at shutdown."""
        for task in self._running:
            task.cancel()

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not warn if the request is gone
