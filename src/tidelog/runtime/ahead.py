"""An iterator that runs ahead of its caller, in a background thread.

The thread stays two items ahead, so that it rarely waits for the caller. The items keep their order, and an error is
raised at the place of its item. If the caller stops early, the thread soon closes the iterator. A process with a single
processor gets no thread: it would only cost time. Thread rule: one thread at a time takes the items.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import TypeVar

from tidelog.runtime.parallel import usable_processors

_ITEMS_AHEAD = 2
_T = TypeVar("_T")


def run_ahead(iterator: Iterator[_T]) -> Iterator[_T]:
    """Yield the items. Only the background thread runs the iterator from now on."""
    if usable_processors() < 2:
        yield from iterator
        return
    ready: SimpleQueue[tuple[_T] | BaseException | None] = SimpleQueue()
    room = Semaphore(_ITEMS_AHEAD)
    is_wanted = True

    def run() -> None:
        try:
            for item in iterator:
                ready.put((item,))
                del item  # frees the memory as soon as the caller is done with it
                room.acquire()
                if not is_wanted:
                    break
            ready.put(None)
        except BaseException as error:  # any error belongs to the caller
            ready.put(error)
        finally:
            if isinstance(iterator, Generator):
                iterator.close()

    # A daemon: an iterator that was neither finished nor closed must not keep the process alive.
    Thread(target=run, name="run-ahead", daemon=True).start()
    try:
        while (taken := ready.get()) is not None:
            if isinstance(taken, BaseException):
                raise taken
            room.release()
            yield taken[0]
            del taken
    finally:
        is_wanted = False
        room.release()  # no wait here: a garbage collection may run this in any thread
