"""Operations that are carried through, be whoever asked for them still there or not.

A request is cancelled when its connection is closed. What it has begun to write must not be: memory would be left
behind the log, a decided transaction without markers. So the operation runs in a task of its own, the request only
waits for it.
Called by: TransactionCoordinator. Thread rule: the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class Operations:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def carry_through(self, operation: Coroutine[Any, Any, Result]) -> Result:
        """Its result or error, for whoever is still there."""
        task = asyncio.get_running_loop().create_task(operation)
        self._running.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def cancel(self) -> None:
        """Those that are running, at the end of everything."""
        for task in self._running:
            task.cancel()

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, should nobody be there to do so
