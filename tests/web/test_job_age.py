"""Results with an age: they are made again when they are too old, and never while the work is still going on."""

from __future__ import annotations

from tidelog.testing.manual_clock import ManualClock
from tidelog.web.jobs import JobProgress, Jobs


def test_an_old_result_is_made_again() -> None:
    clock = ManualClock(0)
    jobs = Jobs(wait_seconds=None, clock=clock)
    made: list[int] = []

    def work(_progress: JobProgress) -> int:
        made.append(clock.now_ms())
        return len(made)

    def result() -> int:
        return jobs.result("key", work, title="working", max_age_ms=1000).value

    assert [result(), result()] == [1, 1]
    clock.sleep_ms(1000)
    assert result() == 1
    clock.sleep_ms(1)
    assert result() == 2
    jobs.close()


def test_slow_work_ends() -> None:
    """The age counts from the end of the work: otherwise work that takes longer than the age would never be shown."""
    clock = ManualClock(0)
    jobs = Jobs(wait_seconds=None, clock=clock)
    made: list[int] = []

    def work(_progress: JobProgress) -> str:
        made.append(clock.now_ms())
        clock.sleep_ms(5000)
        return "done"

    for _ in range(3):
        assert jobs.result("key", work, title="working", max_age_ms=1000).value == "done"
    assert made == [0]
    jobs.close()
