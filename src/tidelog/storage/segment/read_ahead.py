"""A read-ahead: a background thread reads the next chunks while the caller works on this one.

Reading, checksums and decoding run without the GIL, so a reading thread nearly halves the time of a long read. A read
shorter than ``AHEAD_BYTES`` never starts that thread: it would cost about a tenth. Only one thread at a time runs the
iterator: the caller's before the start, the reading thread (``run_ahead``) afterwards.
Thread rule: one thread at a time takes the chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from tidelog.runtime.ahead import run_ahead

AHEAD_BYTES = 2 * 1024 * 1024


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
        if passed >= after_bytes:
            del chunk
            yield from run_ahead(iterator)
            return
