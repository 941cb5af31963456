"""Walk the segments that are to be recovered ahead of the loader: side by side on all cores, handed out in order.

Reading and checking a segment needs nothing of the segments before it and writes nothing; only what follows does
(producers, epochs, files), and stays with the loader, one segment after the other. So what is on disk after a crash
does not depend on how many threads there are, and neither does the result.

Several partitions may share a WalkThreads: it bounds how many walks are under way or wait to be taken, because each
holds its segment's indexes. A partition that has none waits for one; further ones it takes only where there is room, so
none can wait for another for good. Called by: the loader. Thread rule: a WalkAhead belongs to one thread; WalkThreads
to any. Source: Kafka has ``num.recovery.threads.per.data.dir`` for partitions side by side; within one it is new here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import BoundedSemaphore
from types import TracebackType
from typing import Generic, Self, TypeVar

from tidelog.storage.fs import usable_processors

_T = TypeVar("_T")
_WALKS_A_THREAD = 2
"""One under way, one that waits to be taken."""


class WalkThreads:
    """``threads`` of them, by default one a processor. A context manager: leaving it waits for the walks under way."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or usable_processors()
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="segment-walk")
        self._room = BoundedSemaphore(_WALKS_A_THREAD * self.threads)

    def submit(self, walk: Callable[[], _T], *, wait: bool) -> Future[_T] | None:
        """None where there is no room and the caller does not wait for it."""
        if not self._room.acquire(blocking=wait):
            return None
        return self._pool.submit(walk)

    def taken(self) -> None:
        """A walk was taken, or is not wanted any more."""
        self._room.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


class WalkAhead(Generic[_T]):
    """The walks of ``base_offsets``, in that order. A context manager: leaving it waits for the walks under way."""

    def __init__(self, walk: Callable[[int], _T], base_offsets: Iterable[int], threads: WalkThreads | None) -> None:
        """Without ``threads``, or with one only, a segment is walked when it is asked for, by whoever asks."""
        self._walk = walk
        self._waiting = deque(base_offsets)
        self._threads = threads if threads is not None and threads.threads > 1 else None
        self._begun: deque[tuple[int, Future[_T]]] = deque()

    def take(self, base_offset: int) -> _T:
        """The walk of a segment; of one that is not the next in order it is made now. Raises what the walk raised."""
        if self._threads is None or not self._is_next(base_offset):
            return self._walk(base_offset)
        self._begin(self._threads, wait=not self._begun)
        _, walk = self._begun.popleft()
        try:
            return walk.result()
        finally:
            self._threads.taken()
            self._begin(self._threads, wait=False)

    def _is_next(self, base_offset: int) -> bool:
        return base_offset == (self._begun[0][0] if self._begun else self._waiting[0] if self._waiting else None)

    def _begin(self, threads: WalkThreads, *, wait: bool) -> None:
        """``wait``: for the first; the others begin only where there is room."""
        while self._waiting:
            walk = threads.submit(partial(self._walk, self._waiting[0]), wait=wait)
            if walk is None:
                return
            self._begun.append((self._waiting.popleft(), walk))
            wait = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting.clear()
        while self._begun:
            _, walk = self._begun.popleft()
            if not walk.cancel():
                walk.exception()  # waits for it: nobody reads the directory once loading has ended
            if self._threads is not None:
                self._threads.taken()
