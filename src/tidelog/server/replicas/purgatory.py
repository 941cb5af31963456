"""The purgatory of a partition, where acks=all, fetches and record deletions wait for a change.

An operation first checks its partitions and then calls ``wait_until`` if it must wait. That checks the condition after
each change of a partition (append, high watermark, last stable offset, log start, leadership, deletion). It gives up
after the timeout. No change is lost between the check and the wait, because both run on the event loop.

A produce request with acks=all waits for the high watermark, which most appends do not move. So an append alone checks
no operation that waits for replication. Otherwise N producers of a partition would cost N checks for each append.
Thread rule: the event loop only. Source: Kafka's ``DelayedOperation``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, TypeVar

from tidelog.runtime.timers import Timers

Condition = Callable[[], object]
"""Returns something true if it is met."""


class DelayedOperation:
    """A delayed operation. It completes once, by its condition or its timeout.

    ``completed`` gets the condition's result if that is true, its error, or False after the timeout.
    """

    __slots__ = ("completed",)

    def __init__(self) -> None:
        self.completed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def check(self, condition: Condition) -> None:
        """Complete the operation if the condition is met. An error of the condition fails this operation alone: the
        change of the partition, and the other operations, go on."""
        if self.completed.done():
            return
        try:
            result = condition()
        except Exception as error:
            self.completed.set_exception(error)
            return
        if result:
            self.completed.set_result(result)

    def expire(self) -> None:
        if not self.completed.done():
            self.completed.set_result(False)


class Purgatory:
    """The delayed operations of one partition with their conditions, oldest first."""

    __slots__ = ("_operations", "_replications")

    def __init__(self) -> None:
        self._operations: dict[DelayedOperation, Condition] = {}
        self._replications: dict[DelayedOperation, Condition] = {}
        """The operations that wait for replication."""

    def __len__(self) -> int:
        return len(self._operations) + len(self._replications)

    @property
    def replications(self) -> int:
        """The number of operations that wait for replication."""
        return len(self._replications)

    def add(self, operation: DelayedOperation, condition: Condition, *, is_replication: bool = False) -> None:
        """Add an operation. ``is_replication``: an append without a move of the high watermark cannot complete it."""
        (self._replications if is_replication else self._operations)[operation] = condition

    def discard(self, operation: DelayedOperation) -> None:
        self._operations.pop(operation, None)
        self._replications.pop(operation, None)

    def check(self) -> None:
        """Check each operation after a change of the partition."""
        self.check_after_append()
        for operation, condition in tuple(self._replications.items()):
            operation.check(condition)

    def check_after_append(self) -> None:
        """Check the operations after an append that did not move the high watermark."""
        for operation, condition in tuple(self._operations.items()):
            operation.check(condition)


class Watched(Protocol):
    """A partition, as the purgatory needs it."""

    @property
    def purgatory(self) -> Purgatory: ...


WatchedT = TypeVar("WatchedT", bound=Watched)


async def wait_until(
    condition: Callable[[WatchedT], bool],
    partitions: Iterable[WatchedT],
    timers: Timers,
    timeout_ms: int,
    *,
    is_replication: bool = False,
) -> bool:
    """Return True if the condition, which gets the changed partition, was met before the timeout.

    ``is_replication`` is that of ``Purgatory.add``. A cancelled call leaves nothing behind.
    """
    operation = DelayedOperation()
    watched = tuple(partitions)
    for partition in watched:
        partition.purgatory.add(operation, partial(condition, partition), is_replication=is_replication)
    timer = timers.call_later(timeout_ms, operation.expire)
    try:
        is_met: bool = await operation.completed
        return is_met
    finally:
        timer.cancel()
        for partition in watched:
            partition.purgatory.discard(operation)
