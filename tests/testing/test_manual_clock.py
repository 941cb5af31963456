"""The manual clock, and the scheduler that follows it."""

from __future__ import annotations

import pytest

from tidelog.testing import ManualClock, ManualScheduler


def started(now: int = 1000) -> tuple[ManualClock, ManualScheduler]:
    clock = ManualClock(now)
    scheduler = ManualScheduler(clock)
    scheduler.startup()
    return clock, scheduler


def test_time_passes_only_by_hand() -> None:
    clock = ManualClock(1000)
    clock.now += 5
    clock.sleep_ms(10)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1015, 1015)
    clock.now = 400
    assert (clock.now_ms(), clock.monotonic_ms()) == (400, 1015)
    clock.now += 1
    assert (clock.now_ms(), clock.monotonic_ms()) == (401, 1016)


def test_tasks_run_in_the_order_of_time_each_at_its_own() -> None:
    clock, scheduler = started()
    ran: list[tuple[str, int]] = []
    scheduler.schedule("late", lambda: ran.append(("late", clock.now)), delay_ms=70)
    scheduler.schedule("often", lambda: ran.append(("often", clock.now)), delay_ms=10, period_ms=30)
    scheduler.schedule("as late", lambda: ran.append(("as late", clock.now)), delay_ms=70)
    assert scheduler.names == ["often", "late", "as late"]
    clock.now += 9
    assert ran == []
    clock.now = 1100
    assert ran == [
        ("often", 1010),
        ("often", 1040),
        ("late", 1070),
        ("as late", 1070),
        ("often", 1070),
        ("often", 1100),
    ]
    assert clock.now == 1100
    assert scheduler.names == ["often"]


def test_a_task_without_delay_waits_for_the_clock_to_be_touched() -> None:
    clock, scheduler = started()
    ran: list[int] = []
    scheduler.schedule("at once", lambda: ran.append(clock.now))
    assert ran == []
    clock.sleep_ms(0)
    assert ran == [1000]


def test_a_task_may_sleep_cancel_and_schedule() -> None:
    clock, scheduler = started()
    ran: list[tuple[str, int]] = []
    other = scheduler.schedule("cancelled", lambda: ran.append(("cancelled", clock.now)), delay_ms=20)

    def first() -> None:
        other.cancel()
        clock.sleep_ms(25)
        scheduler.schedule("then", lambda: ran.append(("then", clock.now)), delay_ms=5)

    scheduler.schedule("first", first, delay_ms=10)
    scheduler.schedule("delayed by it", lambda: ran.append(("delayed by it", clock.now)), delay_ms=12)
    clock.now += 15
    assert clock.now == 1035
    assert ran == [("delayed by it", 1035)]
    clock.now += 5
    assert ran == [("delayed by it", 1035), ("then", 1040)]


def test_an_error_comes_out_where_the_clock_was_moved_and_the_task_goes_on() -> None:
    clock, scheduler = started()
    ran: list[int] = []

    def fail() -> None:
        ran.append(clock.now)
        raise ValueError("no")

    scheduler.schedule("fails", fail, delay_ms=10, period_ms=10)
    with pytest.raises(ValueError, match="no"):
        clock.now += 30
    assert clock.now == 1010
    with pytest.raises(ValueError, match="no"):
        clock.now += 10
    assert ran == [1010, 1020]


def test_nothing_runs_before_the_start_or_after_the_shutdown() -> None:
    clock = ManualClock(0)
    scheduler = ManualScheduler(clock)
    ran: list[int] = []
    scheduler.schedule("early", lambda: ran.append(clock.now), delay_ms=5, period_ms=100)
    clock.now += 50
    assert ran == []
    scheduler.startup()
    with pytest.raises(RuntimeError):
        scheduler.startup()
    clock.now += 1
    assert ran == [50]
    scheduler.shutdown()
    scheduler.shutdown()
    assert scheduler.schedule("late", lambda: ran.append(clock.now)).is_cancelled
    clock.now += 1000
    assert ran == [50]
    assert scheduler.names == []
