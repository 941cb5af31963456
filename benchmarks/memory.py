"""The largest resident memory of this process since a moment, as Linux counts it."""

from __future__ import annotations

import re
from pathlib import Path

_PROCESS = Path("/proc/self")
_RESET_PEAK = "5"


class PeakMemory:
    """Counts from where it is made."""

    def __init__(self) -> None:
        (_PROCESS / "clear_refs").write_text(_RESET_PEAK)
        self._at_first = self._status("VmRSS")

    def growth(self) -> int:
        """Bytes that the peak lies above the beginning."""
        return self._status("VmHWM") - self._at_first

    @staticmethod
    def _status(field: str) -> int:
        found = re.search(rf"^{field}:\s+(\d+) kB$", (_PROCESS / "status").read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024
