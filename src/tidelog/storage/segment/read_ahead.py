"""A read-ahead: a background thread reads the next chunks while the caller works on this one.

Reading, checksums and decoding run without the GIL, so a reading thread nearly halves the time of a long read. It stays
two chunks ahead, so it rarely waits for the caller. A read shorter than ``AHEAD_BYTES``, or a process with a single
processor, never starts that thread: it would cost about a tenth.

The chunks keep their order, and an error is raised at the place of its chunk. Only one thread at a time runs the
iterator: the caller's before the start, the reading thread afterwards. If the caller stops early, the reading thread
soon closes the iterator. Thread rule: one thread at a time takes the chunks.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Protocol, TypeVar

from tidelog.runtime.parallel import usable_processors

AHEAD_BYTES = 2 * 1024 * 1024
_CHUNKS_AHEAD = 2


class _Buffered(Protocol):
    @property
    def buffer(self) -> memoryview: ...


_T = TypeVar("_T", bound=_Buffered)


def read_ahead(chunks: Iterable[_T], *, after_bytes: int = AHEAD_BYTES) -> Iterator[_T]:
    """Yield the items of ``chunks``; after ``after_bytes``, read the next ones while the caller has the current one."""
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
                del chunk  # frees the memory as soon as the caller is done with it
                room.acquire()
            ready.put(None)
        except BaseException as error:  # any error belongs to the caller
            ready.put(error)
        finally:
            if isinstance(iterator, Generator):
                iterator.close()

    # A daemon: an iterator that was neither finished nor closed must not keep the process alive.
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
        room.release()  # no wait here: a garbage collection may run this in any thread
