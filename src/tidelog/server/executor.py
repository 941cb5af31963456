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
