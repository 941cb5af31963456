"""Which threads came up since a test began."""

from __future__ import annotations

import threading
from collections.abc import Collection

from tidelog.runtime.task_pool import TaskPool


def new_threads(before: Collection[threading.Thread]) -> set[threading.Thread]:
    """Those that are not in ``before``, nor a further one of a scheduler that had one there: a broker that serves many
    tests, say, has threads as it needs them."""
    earlier_pools = {_pool_of(thread) for thread in before}
    new = set(threading.enumerate()) - set(before)
    return {thread for thread in new if (pool := _pool_of(thread)) is None or pool not in earlier_pools}


def _pool_of(thread: threading.Thread) -> TaskPool | None:
    """Also of a thread that has yet to run; None for one that has ended."""
    pool = getattr(getattr(thread, "_target", None), "__self__", None)
    return pool if isinstance(pool, TaskPool) else None
