"""Statistics over windows of time, with the numbers of Kafka's own tests of its metrics."""

from __future__ import annotations

import math

import pytest

from tidelog.runtime.metrics.sampled.sampled_meter import WINDOW_MS, SampledMeter
from tidelog.runtime.metrics.sampled.sampled_times import SampledTimes
from tidelog.testing import ManualClock


@pytest.mark.parametrize(("events", "rate"), [(10, 1 / 3), (20, 2 / 3), (30, 1.0), (50, 5 / 3)])
def test_a_rate_that_has_just_begun_is_of_a_whole_window(events: int, rate: float) -> None:
    meter = SampledMeter(ManualClock(0).monotonic_ms)
    meter.mark(events)
    assert meter.count == events
    assert meter.rate == pytest.approx(rate)


def test_what_is_older_than_two_windows_is_in_the_count_alone() -> None:
    clock = ManualClock(0)
    meter = SampledMeter(clock.monotonic_ms)
    assert (meter.count, meter.rate) == (0, 0.0)
    meter.mark(30)
    clock.sleep_ms(WINDOW_MS)
    meter.mark(60)
    assert meter.rate == pytest.approx(90 / 30)
    clock.sleep_ms(WINDOW_MS)
    assert meter.rate == pytest.approx(60 / 30)
    clock.sleep_ms(WINDOW_MS)
    assert (meter.count, meter.rate) == (90, 0.0)


def test_times_are_of_the_last_two_windows() -> None:
    clock = ManualClock(0)
    times = SampledTimes(clock.monotonic_ms)
    assert math.isnan(times.longest_ms)
    assert math.isnan(times.mean_ms)
    times.record(100)
    with times.measured():
        clock.sleep_ms(20)
    assert (times.longest_ms, times.mean_ms) == (100, 60)
    clock.sleep_ms(WINDOW_MS)
    times.record(9)
    assert (times.longest_ms, times.mean_ms) == (100, 43)
    clock.sleep_ms(WINDOW_MS)
    assert (times.longest_ms, times.mean_ms) == (9, 9)


def test_what_fails_is_not_measured() -> None:
    times = SampledTimes(ManualClock(0).monotonic_ms)
    with pytest.raises(ZeroDivisionError), times.measured():
        _ = 1 / 0
    assert math.isnan(times.mean_ms)
