"""What Linux counts of a running process: its memory, and the time it had on a core."""

from __future__ import annotations

import re
from pathlib import Path

_PROCESSES = Path("/proc")


def resident_bytes(process_id: int) -> int:
    status = (_PROCESSES / str(process_id) / "status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def core_seconds(process_id: int) -> float:
    """Of all its threads that there are now."""
    tasks = (_PROCESSES / str(process_id) / "task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
