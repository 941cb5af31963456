"""Meter: rates compared with the formula, interval by interval."""

from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.runtime.metrics import Meter
from tidelog.testing import ManualClock

RATES = {"OneMinuteRate": 1, "FiveMinuteRate": 5, "FifteenMinuteRate": 15}


def test_nothing_happened() -> None:
    meter = Meter(ManualClock(7))
    assert set(meter.values().values()) == {0}


def test_a_steady_rate_is_what_all_rates_say() -> None:
    clock = ManualClock(0)
    meter = Meter(clock)
    for _ in range(600):
        meter.mark(3)
        clock.now += 1_000
    values = meter.values()
    assert values["Count"] == 1_800
    assert values["MeanRate"] == 3.0
    for rate in RATES:
        assert values[rate] == pytest.approx(3.0)


def test_the_first_interval_sets_the_rate_and_a_minute_of_quiet_leaves_a_third() -> None:
    clock = ManualClock(0)
    meter = Meter(clock)
    meter.mark(10)
    assert meter.values()["OneMinuteRate"] == 0.0
    clock.now += 5_000
    assert meter.values()["OneMinuteRate"] == 2.0
    clock.now += 60_000
    assert meter.values()["OneMinuteRate"] == pytest.approx(2.0 / math.e)


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 50), st.booleans()), max_size=60))
def test_beside_a_rate_that_is_carried_on_every_five_seconds(steps: list[tuple[int, int, bool]]) -> None:
    """Each step is a wait, a number of events, and perhaps a report, which must change nothing."""
    clock = ManualClock(0)
    meter = Meter(clock)
    expected: dict[str, float | None] = dict.fromkeys(RATES)
    pending = total = now = 0
    for wait_ms, events, report in steps:
        for _ in range((now + wait_ms) // 5_000 - now // 5_000):
            for name, minutes in RATES.items():
                before = expected[name]
                alpha = 1 - math.exp(-5 / 60 / minutes)
                expected[name] = pending / 5 if before is None else before + alpha * (pending / 5 - before)
            pending = 0
        now += wait_ms
        clock.now = now
        meter.mark(events)
        pending += events
        total += events
        if report:
            meter.values()
    values = meter.values()
    assert values["Count"] == meter.count == total
    assert values["MeanRate"] == pytest.approx(total * 1000 / now if now else 0.0)
    for name in RATES:
        assert values[name] == pytest.approx(expected[name] or 0.0, abs=1e-12)


def test_no_event_is_lost_between_threads() -> None:
    meter = Meter()

    def mark_often() -> None:
        for _ in range(5_000):
            meter.mark()

    threads = [threading.Thread(target=mark_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.count == 20_000
