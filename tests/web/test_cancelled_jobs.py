"""Work of the background that was cancelled: its result, which may lack files, never reaches a page."""

from __future__ import annotations

import threading

import pytest

from tidelog.model import CancelledError
from tidelog.testing.manual_clock import ManualClock
from tidelog.web.jobs import JobProgress, Jobs, StillRunningError


def test_abandoned_work_is_done_again() -> None:
    clock = ManualClock(1_000_000)
    jobs = Jobs(wait_seconds=0.05, clock=clock, threads=1)
    may_end, has_ended = threading.Event(), threading.Event()

    def work(progress: JobProgress) -> str:
        may_end.wait()
        try:
            progress.advance(1)
        except CancelledError:
            return "without a file"  # as a survey that keeps the errors of files
        finally:
            has_ended.set()
        return "complete"

    with pytest.raises(StillRunningError):
        jobs.result("key", work, title="t")
    clock.sleep_ms(61_000)
    with pytest.raises(StillRunningError):
        jobs.result("other", lambda _progress: None, title="t")  # cancels the abandoned work
    may_end.set()
    has_ended.wait()
    found = None
    while found is None:
        try:
            found = jobs.result("key", work, title="t").value
        except StillRunningError:
            continue
    assert found == "complete"
    jobs.close()
