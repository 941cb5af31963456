"""What is wrong with a disk: which of its calls fail, and how; which are slow. Values, and the rule that matches them.

A fault goes by the names of calls (``disk_calls``), by where the path lies, by a pattern over it as ``fnmatch`` has it
(``*`` matches ``/`` too) and by the number of a changing call; what is not said matches all. An open file goes by the
path that it was opened with. Called by: the simulated disk.
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
    """``errno``: of the error that comes of it (0: none); ``delay_ms``: how long the call takes first."""

    errno: int = 0
    delay_ms: int = 0
    calls: Set[str] = ALL_CALLS
    below: Path | None = None
    """Only this directory and what lies in it."""
    pattern: str = "*"
    at_call: int | None = None
    """Only the changing call of that number, from 0."""
    times: int | None = None
    """How often it happens; None: always."""

    def __post_init__(self) -> None:
        unknown = self.calls - ALL_CALLS
        if unknown:
            raise ValueError(f"a disk has no calls named {', '.join(sorted(unknown))}")

    def happens(self, name: str, path: Path, number: int | None) -> bool:
        """``number``: of a changing call. Counts ``times`` down."""
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
