"""Turns of threads that call codec libraries for many small batches.

A call of snappy or zstd for a small batch takes some 10 µs, and gives up the interpreter's lock for that time. Two
threads with calls of this kind wait for the lock at each call, which takes longer than one thread with all calls. So
they take turns. Meanwhile other threads run kernels, which need the lock once for a chunk. Large batches and gzip need
no turns, because their calls are long.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Final

from tidelog.record.attributes import GZIP

_LARGE_BYTES: Final = 32 << 10
_turn: Final = Lock()


def turn(codec: int, batches: int, size_bytes: int) -> AbstractContextManager[object]:
    """Return a context for the calls for some batches, which have ``size_bytes`` in total. Thread rule: any thread."""
    return _turn if codec != GZIP and size_bytes < batches * _LARGE_BYTES else nullcontext()
