"""Work on several items at once, in threads, and get the results in the order of the items.

Of the items that are begun at most two a thread are in memory. A first item is worked on by the caller, and so is each
where there is one processor: small work starts no thread. Whoever stops early waits for the work under way, not for the
rest. Called by: both halves of a clean. Thread rule: one SideBySide belongs to one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from tidelog.storage.fs import usable_processors

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_MOST_THREADS = 2
"""What the memory of a clean allows; two cleaner threads may be at it as well."""


class SideBySide:
    """Threads for ``results``. A context manager: leaving it waits for the work under way."""

    def __init__(self) -> None:
        self._threads = min(usable_processors(), _MOST_THREADS)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="log-cleaner")

    def results(self, work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """``work`` of each item. What goes wrong with an item is raised in its place."""
        iterator = iter(items)
        for item in iterator:
            yield work(item)
            if self._threads > 1:
                break
        begun: deque[Future[_Result]] = deque()
        try:
            for item in iterator:
                begun.append(self._pool.submit(work, item))
                if len(begun) > self._threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
