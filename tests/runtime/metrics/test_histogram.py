"""Histogram, Timer and their reservoir, compared with plain formulas over all the values."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.runtime.metrics import Histogram, Timer
from tidelog.runtime.metrics.reservoir import ALPHA, SIZE, Reservoir, quantile
from tidelog.testing import ManualClock

VALUES = st.lists(st.integers(0, 10**9), max_size=200)


@given(VALUES)
def test_beside_the_statistics_of_all_values(values: list[int]) -> None:
    histogram = Histogram(ManualClock(0))
    for value in values:
        histogram.update(value)
    found = histogram.values()
    assert found["Count"] == histogram.count == len(values)
    assert found["Min"] == min(values, default=0)
    assert found["Max"] == max(values, default=0)
    assert found["Mean"] == pytest.approx(statistics.fmean(values) if values else 0.0)
    assert found["StdDev"] == pytest.approx(statistics.stdev(values) if len(values) > 1 else 0.0, abs=1e-6)
    if len(values) > 1:  # the reservoir holds all values, so percentiles are exact
        assert found["50thPercentile"] == pytest.approx(statistics.median(values))
        assert found["75thPercentile"] == pytest.approx(_clamped(values, 0.75))


def _clamped(values: list[int], fraction: float) -> float:
    """Limit the quantile of statistics.quantiles to the smallest and largest value, as our histogram does."""
    cut = statistics.quantiles(values, n=100)[round(fraction * 100) - 1]
    return min(max(cut, min(values)), max(values))


@given(st.lists(st.integers(-1000, 1000), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_between_its_neighbours(values: list[int], fraction: float) -> None:
    ordered = [float(value) for value in sorted(values)]
    found = quantile(ordered, fraction)
    below = sum(1 for value in ordered if value <= found) / len(ordered)
    assert ordered[0] <= found <= ordered[-1]
    assert below >= fraction - 1.5 / len(ordered)


@given(st.lists(st.tuples(st.integers(0, 3600), st.integers(0, 9)), max_size=60), st.integers(1, 20), st.integers())
def test_the_highest_priorities_stay(steps: list[tuple[int, int]], size: int, seed: int) -> None:
    """The reservoir keeps the highest priorities of the plain formula, weight / u for each value."""
    reservoir = Reservoir(random.Random(seed).random, size)
    numbers = random.Random(seed)
    priorities: list[tuple[float, int]] = []
    seconds = 0
    for wait, value in steps:
        seconds += wait % 100
        reservoir.update(value, seconds)
        priorities.append((math.exp(ALPHA * seconds) / (1 - numbers.random()), value))
    assert reservoir.values() == sorted(value for _, value in sorted(priorities, reverse=True)[:size])


def test_newer_values_push_out_older_ones() -> None:
    clock = ManualClock(0)
    histogram = Histogram(clock, random.Random(1).random)
    for _ in range(5 * SIZE):
        histogram.update(1)
    clock.now += 3_600_000
    for _ in range(SIZE):
        histogram.update(2)
    found = histogram.values()
    assert (found["Min"], found["50thPercentile"]) == (1, 2.0)
    assert found["Mean"] == pytest.approx(7 / 6)


def test_values_of_one_time_are_equally_likely() -> None:
    reservoir = Reservoir(random.Random(5).random)
    for value in range(20_000):
        reservoir.update(value, 0)
    kept = reservoir.values()
    assert len(kept) == SIZE
    assert statistics.fmean(kept) == pytest.approx(10_000, rel=0.05)


def test_a_process_may_run_for_years() -> None:
    reservoir = Reservoir(random.Random(5).random)
    reservoir.update(1, 0)
    reservoir.update(2, 10 * 365 * 86_400)
    assert reservoir.values() == [1, 2]


def test_a_timer_is_a_meter_and_a_histogram_of_milliseconds() -> None:
    clock = ManualClock(0)
    ticks = iter([0, 1_500_000, 10_000_000, 12_500_000])
    timer = Timer(clock, nanoseconds=lambda: next(ticks))
    with timer.time():
        pass
    with pytest.raises(KeyError), timer.time():
        raise KeyError
    timer.update(5)
    timer.update(-1)
    clock.now += 10_000
    found = timer.values()
    assert found["Count"] == timer.count == 3
    assert (found["Min"], found["Max"], found["Mean"]) == (1.5, 5, 3.0)
    assert found["MeanRate"] == pytest.approx(0.3)
    assert {"OneMinuteRate", "FifteenMinuteRate", "999thPercentile", "StdDev"} <= set(found)
