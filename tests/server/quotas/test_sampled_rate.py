"""Rates as Kafka samples them: the expected numbers come from its ``Rate`` with 11 windows of one second."""

from __future__ import annotations

import math

import pytest

from tidelog.runtime.metrics.sampled.sampled_rate import SampledRate

START_MS = 1_000_000


def rate_of(*amounts: tuple[int, float]) -> SampledRate:
    """Record amounts at these milliseconds after the start."""
    rate = SampledRate(windows=11, window_ms=1000)
    for after_ms, amount in amounts:
        rate.record(amount, START_MS + after_ms)
    return rate


@pytest.mark.parametrize(
    ("amounts", "at_ms", "per_second"),
    [
        ([], 0, 0),
        ([(0, 1000)], 0, 100),
        ([(0, 1000)], 999, 1000 / 10.999),
        ([(0, 1000)], 1000, 100),
        ([(0, 1000), (500, 1000)], 5000, 200),
        ([(0, 1000), (10_000, 100)], 10_000, 110),
        ([(0, 1000), (10_000, 100)], 10_999, 1100 / 10.999),
        ([(0, 1000), (10_000, 100)], 11_000, 100 / 10),
        ([(0, 1000)], 11_000, 0),
    ],
)
def test_per_second(amounts: list[tuple[int, float]], at_ms: int, per_second: float) -> None:
    assert rate_of(*amounts).per_second(START_MS + at_ms) == pytest.approx(per_second)


@pytest.mark.parametrize(
    ("amounts", "limit", "wait_ms"),
    [([(0, 1000)], 100, 0), ([(0, 1000)], 99, 101), ([(0, 1000)], 50, 10_000), ([(0, 1000), (999, 1)], 1, 990_001)],
)
def test_wait(amounts: list[tuple[int, float]], limit: float, wait_ms: int) -> None:
    at_ms = START_MS + amounts[-1][0]
    assert rate_of(*amounts).wait_ms(limit, at_ms) == wait_ms


@pytest.mark.parametrize(("limit", "wait_ms"), [(math.nan, 0), (math.inf, 0), (1e-320, 2**31 - 1)])
def test_a_wait_is_a_number_whatever_the_limit(limit: float, wait_ms: int) -> None:
    assert rate_of((0, 1000)).wait_ms(limit, START_MS) == wait_ms


def test_what_is_old_is_forgotten() -> None:
    rate = rate_of((0, 1000))
    assert rate.per_second(START_MS + 60_000) == 0
    assert rate.is_empty
