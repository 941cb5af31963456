"""A guard that refuses writes in forked children, which inherit the parent's open files.

A forked child shares its parent's file descriptors but neither its threads nor its locks. Two writers of one log would
damage it. The guard counts forks in the child, so a check costs one comparison. Thread rule: any thread.
"""

from __future__ import annotations

import os
from pathlib import Path

from tidelog.model import ForkError

_forks = 0


class ForkGuard:
    """The owner of the files creates the guard when it opens them."""

    __slots__ = ("_forks", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._forks = _forks

    @property
    def is_owner(self) -> bool:
        return self._forks == _forks

    def check(self) -> None:
        """Raise ForkError in a forked child."""
        if self._forks != _forks:
            raise ForkError("opened for writing before this process was forked; open it again here", path=self._path)


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)
