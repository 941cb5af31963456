"""A guard that refuses writes in forked children, which inherit the parent's open files.

A forked child shares its parent's file descriptors but neither its threads nor its locks. Two writers of one log would
damage it. All guards of a process share one flag, which the child clears. Thread rule: any thread.
"""

from __future__ import annotations

import os
from pathlib import Path

from tidelog.model import ForkError


class Process:
    """A process that opens files. ``is_current`` is False in its forked children, which are other processes."""

    __slots__ = ("is_current",)

    def __init__(self) -> None:
        self.is_current = True


_process = Process()


class ForkGuard:
    """The owner of the files creates the guard when it opens them."""

    __slots__ = ("_path", "process")

    def __init__(self, path: Path) -> None:
        self._path = path
        self.process = _process

    @property
    def is_owner(self) -> bool:
        return self.process.is_current

    def check(self) -> None:
        """Raise ForkError in a forked child."""
        if not self.process.is_current:
            raise ForkError("opened for writing before this process was forked; open it again here", path=self._path)


def _begin_process() -> None:
    global _process
    _process.is_current = False
    _process = Process()


os.register_at_fork(after_in_child=_begin_process)
