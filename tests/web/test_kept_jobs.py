"""Jobs that outlast a page: kept results, abandoned work, and work about directories of a running process."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tidelog.testing.manual_clock import ManualClock
from tidelog.web.jobs import JobProgress, Jobs, StillRunningError

BEGUN_MS = 1_000_000


class Work:
    """Work that ends when the test allows it, and notices when it is cancelled."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.runs = 0

    def __call__(self, progress: JobProgress) -> int:
        self.runs += 1
        number = self.runs
        while not self.may_end.wait(0.01):
            progress.advance(1)
        progress.advance(1)
        return number


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(BEGUN_MS)


@pytest.fixture
def jobs(clock: ManualClock) -> Iterator[Jobs]:
    made = Jobs(wait_seconds=0.05, clock=clock)
    yield made
    made.close()


def test_a_result_is_kept_and_work_that_runs_is_not(jobs: Jobs) -> None:
    work = Work()
    assert jobs.kept("key") is None
    with pytest.raises(StillRunningError):
        jobs.result("key", work, title="working")
    assert jobs.kept("key") is None
    work.may_end.set()
    assert wait_for(jobs, "key", work) == 1
    kept = jobs.kept("key")
    assert kept is not None
    assert (kept.value, kept.made_at_ms) == (1, BEGUN_MS)


def wait_for(jobs: Jobs, key: str, work: Work) -> int:
    for _ in range(100):
        try:
            return jobs.result(key, work, title="working").value
        except StillRunningError:
            continue
    raise AssertionError("the work does not end")
