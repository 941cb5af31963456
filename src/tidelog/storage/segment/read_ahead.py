"""Read the next chunks while the caller works on this one: two cores where the work waits for neither.

Reading, checksums, decoding all run without the GIL, so one thread that reads ahead nearly halves the time of a long
read; being two chunks ahead, it hardly ever waits for the caller. A short read, of less than ``AHEAD_BYTES``, never
starts that thread, nor does a process that has one processor to itself: there it would only cost, about a tenth.

The chunks come in order, and what goes wrong while reading is raised where its chunk would have come. Only one thread
at a time is inside the iterator that is read: the caller's before the start, the reading one after it. Whoever stops
early has the iterator closed by that thread, soon.
Called by: the view, verification. Thread rule: as any iterator's.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Protocol, TypeVar

from tidelog.storage.fs import usable_processors

AHEAD_BYTES = 2 * 1024 * 1024
_CHUNKS_AHEAD = 2


class _Buffered(Protocol):
    @property
    def buffer(self) -> memoryview: ...


_T = TypeVar("_T", bound=_Buffered)


def read_ahead(chunks: Iterable[_T], *, after_bytes: int = AHEAD_BYTES) -> Iterator[_T]:
    """The items of ``chunks``; from ``after_bytes`` on each is made while the caller has the one before."""
    iterator = iter(chunks)
    passed = 0
    for chunk in iterator:
        passed += len(chunk.buffer)
        yield chunk
        if passed >= after_bytes and usable_processors() > 1:
            del chunk
            yield from _ahead(iterator)
            return


def _ahead(iterator: Iterator[_T]) -> Iterator[_T]:
    ready: SimpleQueue[_T | BaseException | None] = SimpleQueue()
    room = Semaphore(_CHUNKS_AHEAD)
    is_wanted = True

    def read() -> None:
        try:
            while is_wanted and (chunk := next(iterator, None)) is not None:
                ready.put(chunk)
                del chunk  # its memory is used again once the caller has done with it
                room.acquire()
            ready.put(None)
        except BaseException as error:  # whatever it is, it is the caller's
            ready.put(error)
        finally:
            if isinstance(iterator, Generator):
                iterator.close()

    # A daemon: an iterator that nobody finished nor closed must not keep the process from ending.
    Thread(target=read, name="read-ahead", daemon=True).start()
    try:
        while (chunk := ready.get()) is not None:
            if isinstance(chunk, BaseException):
                raise chunk
            room.release()
            yield chunk
            del chunk
    finally:
        is_wanted = False
        room.release()  # not waited for: a garbage collection may run this, in whatever thread
