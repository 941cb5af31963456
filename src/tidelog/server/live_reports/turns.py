"""Bounds for the work of a report on the event loop, and for the rows that it returns.

A report goes through lists that may have ten thousand items. After ``TURN_S`` the other tasks of the loop get their
turn. After ``TOTAL_S`` of its own time the report ends with the rows that it has (``is_complete`` is False then). Items
may change between two turns, so a report iterates over a copy of a list. Thread rule: the event loop only.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
TURN_S: Final = 0.002
TOTAL_S: Final = 0.1
_LOOK_EVERY: Final = 16
"""The items between two looks at the clock."""


class Turns:
    """The time of one report, over all of its lists, also nested ones."""

    def __init__(self, *, turn_s: float = TURN_S, total_s: float = TOTAL_S) -> None:
        """Begin the first turn."""
        self.is_complete = True
        """False once items were left out."""
        self._turn_s = turn_s
        self._left_s = total_s
        self._begun_s = time.perf_counter()
        self._items = 0

    async def each(self, items: Collection[T]) -> AsyncIterator[T]:
        """Yield the items, with turns for other tasks between them, until the report's time is over."""
        for item in items:
            if self._left_s <= 0:
                self.is_complete = False
                return
            yield item
            self._items += 1
            if self._items % _LOOK_EVERY == 0:
                spent_s = time.perf_counter() - self._begun_s
                if spent_s >= self._turn_s:
                    self._left_s -= spent_s
                    await asyncio.sleep(0)
                    self._begun_s = time.perf_counter()


class Top(Generic[T]):
    """The items of the highest ranks. Of equal ranks the first ones stay."""

    def __init__(self, most: int) -> None:
        self.seen = 0
        """All items that were added."""
        self._most = most
        self._heap: list[tuple[Any, int, T]] = []

    def add(self, rank: Any, item: T) -> None:
        """Add an item. The ranks of one list must be comparable."""
        entry = (rank, -self.seen, item)
        self.seen += 1
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, entry)
        elif self._most:
            heapq.heappushpop(self._heap, entry)

    def items(self) -> list[T]:
        """Return the items, the highest rank first."""
        return [item for _, _, item in sorted(self._heap, reverse=True)]

    def rows(self, row: Callable[[T], dict[str, Any]]) -> dict[str, Any]:
        """Return the rows of the items, and how many items there were."""
        return {"rows": [row(item) for item in self.items()], "total": self.seen}
