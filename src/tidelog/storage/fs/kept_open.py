"""What is kept open only to be quick the next time: files and mappings, of which a process may have so many.

Owns the order in which they were opened, not them: whoever opened something that it can open again says so, and lets go
of it when it is told, which is when there are more than a quarter of what the process may have. The one that was opened
first goes first. Called by: segments and indexes. Thread rule: any thread; ``let_go`` of an owner is called with the
lock held, so it takes none, and one at a time.
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
        """Close what can be opened again; idempotent."""
        ...


class KeptOpen:
    """``most``: how many; None: a quarter of what the process may have at that moment."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._mappings = mapping_limit()
        self._owners: dict[weakref.ref[Owner], None] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._owners)

    def opened(self, owner: Owner) -> None:
        """``owner`` holds something open that it can let go of."""
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
        """Have ``owner`` let go now; nobody else has it do so afterwards."""
        with self._lock:
            self._owners.pop(weakref.ref(owner), None)
            owner.let_go()

    def forget_locks(self) -> None:
        """In a forked child, whose parent's other threads may have held it."""
        self._lock = threading.Lock()


KEPT_OPEN = KeptOpen()
"""Of this process."""

os.register_at_fork(after_in_child=KEPT_OPEN.forget_locks)
