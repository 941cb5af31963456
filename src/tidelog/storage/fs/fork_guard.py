"""Tells a process that opened something from its forked children: what they inherit is not theirs to write to.

A forked child shares the file descriptors of its parent but neither its threads nor its locks; two writers of one log
would tear it. The guard counts forks in the child, so a check costs one comparison.
Called by: whoever owns files for writing. Thread rule: any thread.
"""

from __future__ import annotations

import os
from pathlib import Path

from tidelog.model import ForkError

_forks = 0


class ForkGuard:
    """Made by the owner when it opens."""

    __slots__ = ("_forks", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._forks = _forks

    @property
    def is_owner(self) -> bool:
        return self._forks == _forks

    def check(self) -> None:
        """ForkError in a forked child."""
        if self._forks != _forks:
            raise ForkError("opened for writing before this process was forked; open it again here", path=self._path)


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)
