"""The purgatory of a partition, where acks=all, fetches and record deletions wait for a change.

An operation first checks its partitions and then calls ``wait_until`` if it must wait. That checks the condition after
each change of a partition (append, high watermark, last stable offset, log start, leadership, deletion). It gives up
after the timeout. No change is lost between the check and the wait, because both run on the event loop.
Thread rule: the event loop only. Source: Kafka's ``DelayedOperation``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, TypeVar

from tidelog.runtime.timers import Timers


class DelayedOperation:
    """A delayed operation. It completes once, by its condition or its timeout."""

    __slots__ = ("_completed",)

    def __init__(self) -> None:
        self._completed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def check(self, condition: Callable[[], bool]) -> None:
        if not self._completed.done() and condition():
            self._completed.set_result(True)

    def expire(self) -> None:
        if not self._completed.done():
            self._completed.set_result(False)

    async def wait(self) -> bool:
        """Return True if the condition was met, and False after the timeout."""
        return await self._completed


class Purgatory:
    """The delayed operations of one partition with their conditions, oldest first."""

    __slots__ = ("_operations",)

    def __init__(self) -> None:
        self._operations: dict[DelayedOperation, Callable[[], bool]] = {}

    def __len__(self) -> int:
        return len(self._operations)

    def add(self, operation: DelayedOperation, condition: Callable[[], bool]) -> None:
        self._operations[operation] = condition

    def discard(self, operation: DelayedOperation) -> None:
        self._operations.pop(operation, None)

    def check(self) -> None:
        """Check each operation after a change of the partition."""
        if self._operations:
            for operation, condition in tuple(self._operations.items()):
                operation.check(condition)


class Watched(Protocol):
    """A partition, as the purgatory needs it."""

    @property
    def purgatory(self) -> Purgatory: ...


WatchedT = TypeVar("WatchedT", bound=Watched)


async def wait_until(
    condition: Callable[[WatchedT], bool], partitions: Iterable[WatchedT], timers: Timers, timeout_ms: int
) -> bool:
    """Return True if the condition, which gets the changed partition, was met before the timeout.

    A cancelled call leaves nothing behind.
    """
    operation = DelayedOperation()
    watched = tuple(partitions)
    for partition in watched:
        partition.purgatory.add(operation, partial(condition, partition))
    timer = timers.call_later(timeout_ms, operation.expire)
    try:
        return await operation.wait()
    finally:
        timer.cancel()
        for partition in watched:
            partition.purgatory.discard(operation)
