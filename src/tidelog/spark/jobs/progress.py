"""How far a job is: bytes of logs done, of how many there are to do. It moves as tasks end.

Called by: jobs, on the driver, from one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.spark.jobs.task_progress import Advance

OnProgress = Callable[[int, int], None]
"""Told how many bytes are done, and how many there are in all; first with none done."""


def advancing(on_progress: OnProgress | None, total_bytes: int) -> Advance | None:
    """What ``run_tasks`` tells its steps to; None where nobody asks."""
    if on_progress is None:
        return None
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        on_progress(done, total_bytes)

    advance(0)
    return advance
