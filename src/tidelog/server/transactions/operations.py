"""Operations that run to their end even if the client disconnects.

A closed connection cancels its requests. A started write must not be cancelled: memory would miss a record of the log,
or a decided transaction would get no markers. So each operation runs in its own task, and the request only waits.
Thread rule: the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class Operations:
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
