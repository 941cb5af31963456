"""The progress of a job: the bytes of logs done, and their total. It moves when a task ends.

Thread rule: on the driver, from one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.runtime.progress import Advance

OnProgress = Callable[[int, int], None]
"""A function that receives the bytes done and the total, first with 0 bytes done."""


def advancing(on_progress: OnProgress | None, total_bytes: int) -> Advance | None:
    """Return the callback that ``run_tasks`` calls after each step, or None without ``on_progress``."""
    if on_progress is None:
        return None
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        on_progress(done, total_bytes)

    advance(0)
    return advance
