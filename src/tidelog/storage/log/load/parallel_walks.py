"""Parallel walks of the segments to recover, on all cores.

The loader takes their results in offset order. Reading and checking a segment writes nothing and does not depend on
earlier segments. The dependent steps (producers, epochs, files) stay with the loader, one segment after another. So
neither the result nor the files after a crash depend on the number of threads.

Several partitions may share a WalkThreads. It bounds the walks that are running or finished but not taken, because each
holds its segment's indexes. A partition without a walk waits for a slot; it takes further slots only if they are free,
so partitions cannot deadlock. Thread rule: one thread for a ParallelWalks, any thread for WalkThreads. Source: Kafka's
``num.recovery.threads.per.data.dir`` runs partitions in parallel; parallel walks within a partition are ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import BoundedSemaphore
from typing import Generic, Self, TypeVar

from tidelog.runtime.parallel import usable_processors

_T = TypeVar("_T")
_WALKS_A_THREAD = 2
"""Per thread, one walk runs and another waits to be taken."""


class WalkThreads:
    """A pool of ``threads``, by default one per processor. A context manager, which waits for running walks on exit."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or usable_processors()
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="segment-walk")
        self._room = BoundedSemaphore(_WALKS_A_THREAD * self.threads)

    def submit(self, walk: Callable[[], _T], *, wait: bool) -> Future[_T] | None:
        """Submit a walk. Return None if there is no free slot and the caller does not wait for one."""
        if not self._room.acquire(blocking=wait):
            return None
        return self._pool.submit(walk)

    def release(self) -> None:
        """Release the slot of a walk whose result was taken or is no longer needed."""
        self._room.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)


class ParallelWalks(Generic[_T]):
    """The walks of ``base_offsets``, in that order. A context manager, which waits for running walks on exit."""

    def __init__(self, walk: Callable[[int], _T], base_offsets: Iterable[int], threads: WalkThreads | None) -> None:
        """``take`` walks each segment in the caller's thread if ``threads`` is None or has a single thread."""
        self._walk = walk
        self._waiting = deque(base_offsets)
        self._threads = threads if threads is not None and threads.threads > 1 else None
        self._begun: deque[tuple[int, Future[_T]]] = deque()

    def take(self, base_offset: int) -> _T:
        """Return a segment's walk, or raise its error. A segment that is not the next one is walked now."""
        if self._threads is None or not self._is_next(base_offset):
            return self._walk(base_offset)
        self._begin(self._threads, wait=not self._begun)
        _, walk = self._begun.popleft()
        try:
            return walk.result()
        finally:
            self._threads.release()
            self._begin(self._threads, wait=False)

    def _is_next(self, base_offset: int) -> bool:
        return base_offset == (self._begun[0][0] if self._begun else self._waiting[0] if self._waiting else None)

    def _begin(self, threads: WalkThreads, *, wait: bool) -> None:
        """Submit walks while slots are free. ``wait`` makes the first one wait for its slot."""
        while self._waiting:
            walk = threads.submit(partial(self._walk, self._waiting[0]), wait=wait)
            if walk is None:
                return
            self._begun.append((self._waiting.popleft(), walk))
            wait = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.clear()
        while self._begun:
            _number, walk = self._begun.popleft()
            if not walk.cancel():
                walk.exception()  # waits for the walk: none may read the directory after loading ends
            if self._threads is not None:
                self._threads.release()
