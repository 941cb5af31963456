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
    from tidelog.server.replicas.partition import Partition
    from tidelog.server.timers import Timers

Condition = Callable[["Partition"], bool]
"""A callback that gets the changed partition and returns True if the operation can complete."""


class Waiter:
    """A delayed operation. It completes once, by its condition or its timeout."""

    __slots__ = ("_condition", "_over")

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def partition_changed(self, partition: Partition) -> None:
        if not self._over.done() and self._condition(partition):
            self._over.set_result(True)

    def time_is_over(self) -> None:
        if not self._over.done():
            self._over.set_result(False)

    async def over(self) -> bool:
        """Return True if the condition was met, and False after the timeout."""
        return await self._over


class Waiters:
    """The delayed operations of one partition, oldest first."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Waiter, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiter: Waiter) -> None:
        self._waiting[waiter] = None

    def discard(self, waiter: Waiter) -> None:
        self._waiting.pop(waiter, None)

    def partition_changed(self, partition: Partition) -> None:
        if self._waiting:
            for waiter in tuple(self._waiting):
                waiter.partition_changed(partition)


async def wait_until(condition: Condition, partitions: Iterable[Partition], timers: Timers, timeout_ms: int) -> bool:
    """Return True if the condition was met before the timeout. A cancelled call leaves nothing behind."""
    waiter = Waiter(condition)
    watched = tuple(partitions)
    for partition in watched:
        partition.waiters.add(waiter)
    timer = timers.call_later(timeout_ms, waiter.time_is_over)
    try:
        return await waiter.over()
    finally:
        timer.cancel()
        for partition in watched:
            partition.waiters.discard(waiter)
