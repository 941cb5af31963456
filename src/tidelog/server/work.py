"""How parts of the broker have work done beside what they are at, and let others have a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, ParamSpec, Protocol, TypeVar

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")


class InThread(Protocol):
    """Runs what may take long beside the loop."""

    def __call__(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Awaitable[Result]: ...


Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Runs a coroutine on the loop beside all else, until it ends or the broker stops; an error is logged."""


async def in_pieces(items: Iterable[Item], size: int = 500) -> AsyncIterator[Item]:
    """One item after the other; after each ``size`` of them the loop sees to everybody else."""
    for number, item in enumerate(items, 1):
        yield item
        if number % size == 0:
            await asyncio.sleep(0)
