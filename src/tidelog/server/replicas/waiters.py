"""What waits for partitions to change: acks=all for replicas, a fetch for records, deletions for other replicas.

An operation looks at its partitions first; what is not there yet it waits for with ``wait_until``, which asks again
whenever one of them changes (append, high watermark, last stable offset, log start, leadership, deletion) or gives up
when the time is over. Nothing can change between the look and the wait: both happen on the loop.
Called by: Partition, the data handlers, coordinators. Thread rule: the loop's. Source: Kafka's ``DelayedOperation``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.server.replicas.partition import Partition
    from tidelog.server.timers import Timers

Condition = Callable[["Partition"], bool]
"""Whether the wait is over, asked with the partition that has just changed."""


class Waiter:
    """One wait; over for good once."""

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
        """True where the condition was met, False where the time is over."""
        return await self._over


class Waiters:
    """Those that watch one partition, in the order in which they came."""

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
    """Whether the condition was met before the time was over. May be cancelled: nothing is left behind."""
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
