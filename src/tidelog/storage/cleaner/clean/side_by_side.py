"""Work on several items at once, in threads, and get the results in the order of the items.

The threads take the items themselves, one at a time, so that an item is made where it is worked on, while its bytes are
in that core's cache; of those that are begun at most two a thread are in memory. The first few items are worked on by
the caller, and so are all where there is one processor: small work starts no thread. Whoever stops early waits for the
work under way, not for the rest. Called by: both halves of a clean. Thread rule: one SideBySide belongs to one thread,
and one of its results is taken at a time; the iterator of items is entered by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from itertools import chain, islice
from queue import SimpleQueue
from threading import Lock, Semaphore
from types import TracebackType
from typing import Generic, Self, TypeVar

from tidelog.storage.fs import usable_processors

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_MOST_THREADS = 2
"""What the memory of a clean allows; two cleaner threads may be at it as well."""
_BEGUN_A_THREAD = 2
_ALONE = 2
"""Items that the caller works on before threads do."""


class SideBySide:
    """Threads for ``results`` and ``begin``. A context manager: leaving it waits for the work under way."""

    def __init__(self) -> None:
        self._threads = min(usable_processors(), _MOST_THREADS)
        self._pool = ThreadPoolExecutor(self._threads + 1, thread_name_prefix="log-cleaner")

    def results(self, work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Generator[_Result, None, None]:
        """``work`` of each item. What goes wrong with an item, or in the making of one, is raised in its place."""
        iterator = iter(items)
        for item in islice(iterator, _ALONE) if self._threads > 1 else iterator:
            yield work(item)
        for item in iterator:
            yield from self._results(_Stream(work, chain([item], iterator), room=_BEGUN_A_THREAD * self._threads))

    def _results(self, stream: _Stream[_Item, _Result]) -> Iterator[_Result]:
        running = [self._pool.submit(stream.run) for _ in range(self._threads)]
        try:
            yield from stream.results()
        finally:
            stream.stop(self._threads)
            wait(running)

    def begin(self, work: Callable[[], _Result], *, alone: bool) -> Future[_Result]:
        """One piece of work beside ``results``; ``alone``, or with one processor, it is done when this returns."""
        if self._threads > 1 and not alone:
            return self._pool.submit(work)
        done: Future[_Result] = Future()
        _settle(done, work)
        return done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)


class _Stream(Generic[_Item, _Result]):
    """Items on their way through the threads: taken in turn, their results queued in that order, done or not."""

    def __init__(self, work: Callable[[_Item], _Result], items: Iterator[_Item], *, room: int) -> None:
        self._work = work
        self._items = items
        self._turn = Lock()
        self._room = Semaphore(room)
        self._begun: SimpleQueue[Future[_Result] | None] = SimpleQueue()
        """None: there are no more."""
        self._is_wanted = True

    def results(self) -> Iterator[_Result]:
        while (result := self._begun.get()) is not None:
            yield result.result()
            del result
            self._room.release()

    def stop(self, threads: int) -> None:
        """The threads end with what they work on."""
        self._is_wanted = False
        self._room.release(threads)

    def run(self) -> None:
        """In each of the threads."""
        while self._room.acquire() and self._is_wanted and (begun := self._begin()) is not None:
            result, item = begun
            _settle(result, partial(self._work, item))
            del begun, result, item  # their memory is used again while this thread waits

    def _begin(self) -> tuple[Future[_Result], _Item] | None:
        """The next item and its place among the results; None where there is none."""
        result: Future[_Result] = Future()
        with self._turn:
            try:
                item = next(self._items)
            except StopIteration:
                self._begun.put(None)
                return None
            except BaseException as error:
                result.set_exception(error)
                self._begun.put(result)
                return None
            self._begun.put(result)
        return result, item


def _settle(result: Future[_Result], work: Callable[[], _Result]) -> None:
    try:
        result.set_result(work())
    except BaseException as error:  # whatever it is, it belongs to whoever takes the result
        result.set_exception(error)
