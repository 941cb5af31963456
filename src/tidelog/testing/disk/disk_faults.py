"""Faults of a disk: calls that fail and calls that are slow, and the rule that matches them.

A fault matches by the names of calls (``disk_calls``), the directory of the path, a pattern for ``fnmatch`` (``*``
matches ``/`` too) and the number of a changing call. An omitted condition matches all. An open file matches by the path
with which it was opened.
"""

from __future__ import annotations

import os
from collections.abc import Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tidelog.testing.disk.disk_calls import ALL_CALLS


@dataclass(slots=True, kw_only=True, eq=False)
class DiskFault:
    """``errno`` is the number of the error (0 for none). ``delay_ms`` is a wait before it."""

    errno: int = 0
    delay_ms: int = 0
    calls: Set[str] = ALL_CALLS
    below: Path | None = None
    """The fault is limited to this directory and its contents."""
    pattern: str = "*"
    at_call: int | None = None
    """The fault is limited to the changing call with this number, from 0."""
    times: int | None = None
    """The remaining number of times; None for no limit."""

    def __post_init__(self) -> None:
        unknown = self.calls - ALL_CALLS
        if unknown:
            raise ValueError(f"a disk has no calls named {', '.join(sorted(unknown))}")

    def happens(self, name: str, path: Path, number: int | None) -> bool:
        """Return True if the fault matches, and count ``times`` down. ``number`` is that of a changing call."""
        if name not in self.calls or self.times == 0:
            return False
        if self.at_call is not None and self.at_call != number:
            return False
        if self.below is not None and not path.is_relative_to(self.below):
            return False
        if not fnmatchcase(str(path), self.pattern):
            return False
        if self.times is not None:
            self.times -= 1
        return True

    def error(self) -> OSError:
        return OSError(self.errno, os.strerror(self.errno))
