"""Work in the background: when it begins, when it begins again, and when it ends without a result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from tidelog.model import CancelledError, ConfigError
from tidelog.testing import ManualClock
from tidelog.web import jobs as module
from tidelog.web.jobs import BusyError, Finished, JobProgress, Jobs, StillRunningError

NOW = 1_700_000_000_000
PATIENCE_S = 60


class Work:
    """Work that a test holds back. ``begun`` counts its runs, ``cancelled`` its ends by cancellation."""

    def __init__(self, clock: ManualClock | None = None, took_ms: int = 0) -> None:
        self.begun = 0
        self.was_cancelled = threading.Event()
        self.go_on = threading.Semaphore(0)
        self._clock = clock
        self._took_ms = took_ms

    def __call__(self, progress: JobProgress) -> int:
        self.begun += 1
        number = self.begun
        assert self.go_on.acquire(timeout=PATIENCE_S)
        if self._clock is not None:
            self._clock.sleep_ms(self._took_ms)
        try:
            progress.advance(10)
        except CancelledError:
            self.was_cancelled.set()
            raise
        return number


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def jobs(clock: ManualClock) -> Iterator[Jobs]:
    """Return jobs that wait for 10 ms only, so a test decides which work takes longer."""
    made = Jobs(wait_seconds=0.01, clock=clock)
    yield made
    made.close()


def until_ready(ask: Callable[[], Finished[int]]) -> Finished[int]:
    """Ask until there is a result."""
    while True:
        try:
            return ask()
        except StillRunningError:
            pass


def test_a_result_is_kept_until_its_inputs_change(jobs: Jobs) -> None:
    numbers = iter(range(9))

    def ask(signature: object = None) -> Finished[int]:
        return until_ready(lambda: jobs.result("k", lambda _: next(numbers), title="t", signature=signature))

    assert [ask("a").value, ask("a").value, ask("b").value, ask("a").value] == [0, 0, 1, 2]


def test_the_time_of_a_result_is_that_of_its_beginning(jobs: Jobs, clock: ManualClock) -> None:
    def work(_progress: JobProgress) -> int:
        clock.sleep_ms(700)
        return 7

    finished = until_ready(lambda: jobs.result("k", work, title="t"))
    assert finished == Finished(value=7, made_at_ms=NOW, took_ms=700)


def test_long_work_is_awaited_by_pages(jobs: Jobs) -> None:
    work = Work()
    with pytest.raises(StillRunningError) as first:
        jobs.result("k", work, title="counting")
    assert (first.value.title, first.value.progress.begun_ms) == ("counting", NOW)
    with pytest.raises(StillRunningError) as second:
        jobs.result("k", work, title="counting")
    assert second.value.progress is first.value.progress
    work.go_on.release()
    assert until_ready(lambda: jobs.result("k", work, title="counting")).value == 1
    assert work.begun == 1
    assert first.value.progress.done == 10


def test_an_error_is_raised_once_and_not_kept(jobs: Jobs) -> None:
    errors: list[Exception] = [ConfigError("first"), KeyError("second")]

    def work(_progress: JobProgress) -> int:
        if errors:
            raise errors.pop(0)
        return 7

    with pytest.raises(ConfigError, match="first"):
        until_ready(lambda: jobs.result("k", work, title="t"))
    with pytest.raises(KeyError):
        until_ready(lambda: jobs.result("k", work, title="t"))
    assert until_ready(lambda: jobs.result("k", work, title="t")).value == 7


def test_newer_results_are_made_on_demand(jobs: Jobs, clock: ManualClock) -> None:
    numbers = iter(range(9))

    def ask(newer_than_ms: int = -1) -> Finished[int]:
        return until_ready(lambda: jobs.result("k", lambda _: next(numbers), title="t", newer_than_ms=newer_than_ms))

    first = ask()
    assert ask(first.made_at_ms - 1) == first
    clock.sleep_ms(5)
    second = ask(first.made_at_ms)
    assert (second.value, second.made_at_ms) == (1, NOW + 5)
    assert ask(first.made_at_ms) == second  # the same URL again, as a browser loads it
    assert ask(clock.now).value == 2  # no endless loop while the clock stands still


def test_another_signature_cancels_running_work(jobs: Jobs) -> None:
    old, new = Work(), Work()
    with pytest.raises(StillRunningError):
        jobs.result("k", old, title="t", signature=1)
    with pytest.raises(StillRunningError):
        jobs.result("k", new, title="t", signature=2)
    old.go_on.release()
    assert old.was_cancelled.wait(PATIENCE_S)
    new.go_on.release()
    assert until_ready(lambda: jobs.result("k", new, title="t", signature=2)).value == 1


def test_a_page_whose_work_another_one_cancels_asks_again(clock: ManualClock) -> None:
    jobs = Jobs(wait_seconds=PATIENCE_S, clock=clock)
    work = Work()
    errors: list[Exception] = []

    def ask() -> None:
        try:
            jobs.result("k", work, title="t", signature=1)
        except Exception as error:
            errors.append(error)

    page = threading.Thread(target=ask)
    page.start()
    while not work.begun:
        pass
    assert jobs.result("k", lambda _: 7, title="t", signature=2).value == 7
    work.go_on.release()
    page.join(PATIENCE_S)
    assert [type(error) for error in errors] == [StillRunningError]
    jobs.close()


def test_work_that_no_page_asks_for_is_cancelled(jobs: Jobs, clock: ManualClock) -> None:
    abandoned, other = Work(), Work()
    with pytest.raises(StillRunningError) as running:
        jobs.result("abandoned", abandoned, title="t")
    clock.sleep_ms(60_000)
    other.go_on.release()
    until_ready(lambda: jobs.result("other", other, title="t"))
    cancelled = [running.value.progress.is_cancelled]
    clock.sleep_ms(1)
    until_ready(lambda: jobs.result("other", other, title="t"))
    cancelled.append(running.value.progress.is_cancelled)
    assert cancelled == [False, True]
    abandoned.go_on.release()
    assert abandoned.was_cancelled.wait(PATIENCE_S)
    abandoned.go_on.release()
    assert until_ready(lambda: jobs.result("abandoned", abandoned, title="t")).value == 2  # it begins again


def test_a_late_request_for_running_work_does_not_cancel_it(jobs: Jobs, clock: ManualClock) -> None:
    work = Work()
    for _ in range(3):
        with pytest.raises(StillRunningError):
            jobs.result("k", work, title="t")
        clock.sleep_ms(300_000)
    work.go_on.release()
    assert until_ready(lambda: jobs.result("k", work, title="t")).value == 1


def test_abandoned_work_that_waits_for_a_thread_never_begins(clock: ManualClock) -> None:
    jobs = Jobs(wait_seconds=0.01, clock=clock, threads=1)
    running, waiting, later = Work(), Work(), Work()
    for key, work in (("running", running), ("waiting", waiting)):
        with pytest.raises(StillRunningError):
            jobs.result(key, work, title="t")
    clock.sleep_ms(60_001)
    with pytest.raises(StillRunningError):
        jobs.result("later", later, title="t")
    running.go_on.release()
    assert running.was_cancelled.wait(PATIENCE_S)
    later.go_on.release()
    assert until_ready(lambda: jobs.result("later", later, title="t")).value == 1
    assert waiting.begun == 0
    jobs.close()


def test_the_number_of_jobs_is_bounded(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_JOBS", 3)
    works = [Work() for _ in range(4)]
    for number, work in enumerate(works[:3]):
        with pytest.raises(StillRunningError):
            jobs.result(number, work, title="t")
    with pytest.raises(BusyError, match="3 reports are being made"):
        jobs.result(3, works[3], title="t")
    with pytest.raises(StillRunningError):
        jobs.result(2, works[2], title="t")  # a kept one is still found
    for work in works:
        work.go_on.release(2)
    for number in (0, 1, 2, 3):
        assert until_ready(lambda number=number: jobs.result(number, works[number], title="t")).value == 1  # type: ignore[misc]
    assert until_ready(lambda: jobs.result(1, works[1], title="t")).value == 1
    assert until_ready(lambda: jobs.result(0, works[0], title="t")).value == 2  # the oldest made room


def test_a_full_house_does_not_keep_changed_work_from_beginning_again(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_JOBS", 1)
    assert until_ready(lambda: jobs.result("k", lambda _: 1, title="t", signature="a")).value == 1
    assert until_ready(lambda: jobs.result("k", lambda _: 2, title="t", signature="b")).value == 2


def test_the_end_cancels_all_work(clock: ManualClock) -> None:
    jobs = Jobs(wait_seconds=0.01, clock=clock)
    work = Work()
    with pytest.raises(StillRunningError):
        jobs.result("k", work, title="t")
    closing = threading.Thread(target=jobs.close)
    closing.start()
    work.go_on.release()
    closing.join(PATIENCE_S)
    assert not closing.is_alive()


def test_a_command_waits_for_every_result() -> None:
    jobs = Jobs(wait_seconds=None)
    work = Work()
    threading.Timer(0.3, work.go_on.release).start()
    assert jobs.result("k", work, title="t").value == 1
    jobs.close()


def test_many_pages_share_the_same_work(clock: ManualClock) -> None:
    jobs = Jobs(wait_seconds=PATIENCE_S, clock=clock)
    work = Work()
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(jobs.result("k", work, title="t").value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    work.go_on.release()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert (found, work.begun) == ([1] * 8, 1)
    jobs.close()


def test_progress_is_a_share_of_the_expected_bytes() -> None:
    progress = JobProgress(begun_ms=NOW)
    shares = [progress.share]
    progress.expect(200)
    for count in (50, 500):
        progress.advance(count)
        shares.append(progress.share)
    assert shares == [None, 0.25, 1.0]
    with pytest.raises(CancelledError, match="no page waits"):
        JobProgress(begun_ms=NOW, is_cancelled=True).advance(1)
