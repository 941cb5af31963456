"""A parallel map over items, whose results come in the order of the items.

Each thread takes the next item itself, so that the item is created and processed while its bytes are in that core's
cache. At most two started items per thread are in memory. The caller processes the first few items itself, and all of
them if there is only one processor, so small work starts no thread. A caller that stops early waits for the started
items only. Thread rule: one thread uses a ParallelMap and takes its results, one at a time. The iterator of items runs
in one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import chain, islice
from queue import SimpleQueue
from threading import Lock, Semaphore
from typing import Generic, Self, TypeVar

from tidelog.runtime.parallel import usable_processors

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_MAX_THREADS = 2
"""The limit that the memory of a clean allows; two cleaner threads may run at the same time."""
_ITEMS_PER_THREAD = 2
_FIRST_ITEMS = 2
"""The number of items that the caller processes before threads do."""


class ParallelMap:
    """The threads for ``results`` and ``begin``. A context manager: leaving it waits for the running work."""

    def __init__(self) -> None:
        self._threads = min(usable_processors(), _MAX_THREADS)
        self._pool = ThreadPoolExecutor(self._threads + 1, thread_name_prefix="log-cleaner")

    def results(self, work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Generator[_Result, None, None]:
        """Yield ``work`` of each item. An error from an item, or from the iterator, is raised at its place."""
        iterator = iter(items)
        for item in islice(iterator, _FIRST_ITEMS) if self._threads > 1 else iterator:
            yield work(item)
        for item in iterator:
            yield from self._results(_Stream(work, chain([item], iterator), room=_ITEMS_PER_THREAD * self._threads))

    def _results(self, stream: _Stream[_Item, _Result]) -> Iterator[_Result]:
        running = [self._pool.submit(stream.run) for _ in range(self._threads)]
        try:
            yield from stream.results()
        finally:
            stream.stop(self._threads)
            wait(running)

    def submit(self, work: Callable[[], _Result], *, inline: bool) -> Future[_Result]:
        """Start work next to ``results``. If ``inline``, or with one processor, finish it before returning."""
        if self._threads > 1 and not inline:
            return self._pool.submit(work)
        done: Future[_Result] = Future()
        _set_outcome(done, work)
        return done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)


class _Stream(Generic[_Item, _Result]):
    """The items in progress: threads take them in turn, and their results are queued in that order, finished or not."""

    def __init__(self, work: Callable[[_Item], _Result], items: Iterator[_Item], *, room: int) -> None:
        self._work = work
        self._items = items
        self._turn = Lock()
        self._room = Semaphore(room)
        self._started: SimpleQueue[Future[_Result] | None] = SimpleQueue()
        """The started results; None marks the end."""
        self._is_running = True

    def results(self) -> Iterator[_Result]:
        while (result := self._started.get()) is not None:
            yield result.result()
            del result
            self._room.release()

    def stop(self, threads: int) -> None:
        """Let each thread finish its current item and end."""
        self._is_running = False
        self._room.release(threads)

    def run(self) -> None:
        """Process items until the stream ends or stops; each thread runs this."""
        while self._room.acquire() and self._is_running and (begun := self._start_next()) is not None:
            result, item = begun
            _set_outcome(result, partial(self._work, item))
            del begun, result, item  # frees their memory while this thread waits

    def _start_next(self) -> tuple[Future[_Result], _Item] | None:
        """Take the next item and enqueue its result; return None at the end of the items."""
        result: Future[_Result] = Future()
        with self._turn:
            try:
                item = next(self._items)
            except StopIteration:
                self._started.put(None)
                return None
            except BaseException as error:
                result.set_exception(error)
                self._started.put(result)
                return None
            self._started.put(result)
        return result, item


def _set_outcome(result: Future[_Result], work: Callable[[], _Result]) -> None:
    try:
        result.set_result(work())
    except BaseException as error:  # any error belongs to the consumer of the result
        result.set_exception(error)
