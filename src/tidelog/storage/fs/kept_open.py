"""The files and mappings that stay open only for speed, bounded by the process's limits.

The module owns the order of opening, not the files. An owner registers a file or mapping that it can open again. When
more than a quarter of the process's limit is open, the oldest owner must close its own. Thread rule: any thread. An
owner's ``let_go`` runs with the lock held, one call at a time, so it must take no lock.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

from tidelog.storage.fs.limits import mapping_limit, open_file_limits

_PART = 4


class Owner(Protocol):
    def let_go(self) -> None:
        """Close everything that can be opened again. The call is idempotent."""
        ...


class KeptOpen:
    """``most`` is the maximum number of owners. None means a quarter of the process's limit at that moment."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._mappings = mapping_limit()
        self._owners: dict[weakref.ref[Owner], None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._owners)

    def opened(self, owner: Owner) -> None:
        """Register ``owner``, which holds something open that it can close and open again."""
        most = self._most or min(open_file_limits()[0], self._mappings) // _PART
        with self._lock:
            self._owners[weakref.ref(owner)] = None
            while len(self._owners) > most:
                first = next(iter(self._owners))
                del self._owners[first]
                kept = first()
                if kept is not None:
                    kept.let_go()

    def let_go(self, owner: Owner) -> None:
        """Make ``owner`` close now. The registry does not call it again until it registers again."""
        with self._lock:
            self._owners.pop(weakref.ref(owner), None)
            owner.let_go()

    def forget_locks(self) -> None:
        """Replace the lock in a forked child, because another thread of the parent may have held it."""
        self._lock = threading.Lock()


KEPT_OPEN = KeptOpen()
"""The registry of this process."""

os.register_at_fork(after_in_child=KEPT_OPEN.forget_locks)
