"""Read the next chunk while the caller works on this one: two cores where the work waits for neither.

Reading, checksums, decoding all run without the GIL, so one thread that reads ahead by a single chunk nearly halves the
time of a long read. A short read, of less than ``AHEAD_BYTES``, never starts that thread, nor does a process that has
one processor to itself: there it would only cost, about a tenth.

The chunks come in order, and what goes wrong while reading is raised where its chunk would have come. Only one thread
at a time is inside the iterator that is read: the caller's before the start, the reading one after it. Whoever stops
early has the iterator closed by that thread, soon.
Called by: the view, verification. Thread rule: as any iterator's.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

from tidelog.storage.fs import usable_processors

AHEAD_BYTES = 8 * 1024 * 1024


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
    reader = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
    try:
        coming: Future[_T | None] = reader.submit(next, iterator, None)
        while (chunk := coming.result()) is not None:
            coming = reader.submit(next, iterator, None)
            yield chunk
    finally:
        # Not waited for: a garbage collection may run this, in whatever thread.
        if isinstance(iterator, Generator):
            reader.submit(iterator.close)
        reader.shutdown(wait=False)
