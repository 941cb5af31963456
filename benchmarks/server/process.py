"""Linux's counters of a running process: its memory, and its time on a core."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.worker import Done

_PROCESSES = Path("/proc")


def resident_bytes(process_id: int) -> int:
    status = (_PROCESSES / str(process_id) / "status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def core_seconds(process_id: int) -> float:
    """Return the time of all threads that exist now."""
    tasks = (_PROCESSES / str(process_id) / "task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


@contextmanager
def counted_cpu(process_id: int, size: int, done: list[Done]) -> Iterator[None]:
    """Append to ``done`` the time of a core that the block takes the process, for a GB of its ``size`` bytes."""
    before = core_seconds(process_id)
    yield
    done.append(Done(seconds=(core_seconds(process_id) - before) / (size / 1e9), bytes=0, records=0))


def process_seconds(process_id: int) -> float:
    """Return the time of a process on cores, with that of its ended threads and of its ended children."""
    fields = (_PROCESSES / str(process_id) / "stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
