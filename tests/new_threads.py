"""The threads that started since a test began."""

from __future__ import annotations

import threading
from collections.abc import Collection

from tidelog.runtime.scheduler import TaskPool


def new_threads(before: Collection[threading.Thread]) -> set[threading.Thread]:
    """Return running threads that are not in ``before``, without further threads of a pool that had one there.

    A broker that serves many tests may start pool threads at any time.
    """
    earlier_pools = {_pool_of(thread) for thread in before}
    new = set(threading.enumerate()) - set(before)
    return {thread for thread in new if (pool := _pool_of(thread)) is None or pool not in earlier_pools}


def _pool_of(thread: threading.Thread) -> TaskPool | None:
    """Return the thread's pool, also before the thread runs. Return None for a thread that has ended."""
    pool = getattr(getattr(thread, "_target", None), "__self__", None)
    return pool if isinstance(pool, TaskPool) else None
