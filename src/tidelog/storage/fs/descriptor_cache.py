"""The files and mappings that stay open only for speed, bounded by the process's limits.

The module owns the order of opening, not the files. An owner registers a file or mapping that it can open again. When
more than a quarter of the process's limit is open, the oldest owner must close its own. Thread rule: any thread. An
owner's ``close_cached`` runs with the lock held, one call at a time, so it must take no lock.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

from tidelog.storage.fs.limits import mapping_limit, open_file_limits

_PART = 4


class CacheOwner(Protocol):
    def close_cached(self) -> None:
        """Close everything that can be opened again. The call is idempotent."""
        ...


class DescriptorCache:
    """``limit`` is the maximum number of owners. None means a quarter of the process's limit at that moment."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._mappings = mapping_limit()
        self._owners: dict[weakref.ref[CacheOwner], None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._owners)

    def register(self, owner: CacheOwner) -> None:
        """Register ``owner``, which holds something open that it can close and open again."""
        most = self._limit or min(open_file_limits()[0], self._mappings) // _PART
        with self._lock:
            self._owners[weakref.ref(owner)] = None
            while len(self._owners) > most:
                first = next(iter(self._owners))
                del self._owners[first]
                kept = first()
                if kept is not None:
                    kept.close_cached()

    def close(self, owner: CacheOwner) -> None:
        """Make ``owner`` close now. The registry does not call it again until it registers again."""
        with self._lock:
            self._owners.pop(weakref.ref(owner), None)
            owner.close_cached()

    def forget_locks(self) -> None:
        """Replace the lock in a forked child, because another thread of the parent may have held it."""
        self._lock = threading.Lock()


DESCRIPTOR_CACHE = DescriptorCache()
"""The registry of this process."""

os.register_at_fork(after_in_child=DESCRIPTOR_CACHE.forget_locks)
