"""The purgatory of a partition, where acks=all, fetches and record deletions wait for a change.

An operation first checks its partitions and then calls ``wait_until`` if it must wait. That checks the condition after
each change of a partition (append, high watermark, last stable offset, log start, leadership, deletion). It gives up
after the timeout. No change is lost between the check and the wait, because both run on the event loop.
Thread rule: the event loop only. Source: Kafka's ``DelayedOperation``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.runtime.timers import Timers
    from tidelog.server.replicas.partition import Partition

Condition = Callable[["Partition"], bool]
"""A callback that gets the changed partition and returns True if the operation can complete."""


class DelayedOperation:
    """A delayed operation. It completes once, by its condition or its timeout."""

    __slots__ = ("_completed", "_condition")

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._completed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def partition_changed(self, partition: Partition) -> None:
        if not self._completed.done() and self._condition(partition):
            self._completed.set_result(True)

    def expire(self) -> None:
        if not self._completed.done():
            self._completed.set_result(False)

    async def wait(self) -> bool:
        """Return True if the condition was met, and False after the timeout."""
        return await self._completed


class Purgatory:
    """The delayed operations of one partition, oldest first."""

    __slots__ = ("_operations",)

    def __init__(self) -> None:
        self._operations: dict[DelayedOperation, None] = {}

    def __len__(self) -> int:
        return len(self._operations)

    def add(self, operation: DelayedOperation) -> None:
        self._operations[operation] = None

    def discard(self, operation: DelayedOperation) -> None:
        self._operations.pop(operation, None)

    def partition_changed(self, partition: Partition) -> None:
        if self._operations:
            for operation in tuple(self._operations):
                operation.partition_changed(partition)


async def wait_until(condition: Condition, partitions: Iterable[Partition], timers: Timers, timeout_ms: int) -> bool:
    """Return True if the condition was met before the timeout. A cancelled call leaves nothing behind."""
    operation = DelayedOperation(condition)
    watched = tuple(partitions)
    for partition in watched:
        partition.purgatory.add(operation)
    timer = timers.call_later(timeout_ms, operation.expire)
    try:
        return await operation.wait()
    finally:
        timer.cancel()
        for partition in watched:
            partition.purgatory.discard(operation)
