"""The largest resident memory of this process since a moment, by Linux's counters."""

from __future__ import annotations

import re
from pathlib import Path

_PROCESS = Path("/proc/self")
_RESET_PEAK = "5"


class PeakMemory:
    """A counter that starts at its creation."""

    def __init__(self) -> None:
        (_PROCESS / "clear_refs").write_text(_RESET_PEAK)
        self._at_first = self._status("VmRSS")

    def growth(self) -> int:
        """Return the bytes by which the peak exceeds the beginning."""
        return self._status("VmHWM") - self._at_first

    @staticmethod
    def _status(field: str) -> int:
        found = re.search(rf"^{field}:\s+(\d+) kB$", (_PROCESS / "status").read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024
