"""The throttle: a rate over periods, on a manual clock that only sleeping moves."""

from __future__ import annotations

import pytest

from tidelog.runtime.throttle import CHECK_EVERY_MS, Throttle
from tidelog.testing import ManualClock


def passes(clock: ManualClock, throttle: Throttle, times: int, amount: int, each_ms: int) -> int:
    """Return the elapsed ms of ``times`` pieces of work that take ``each_ms`` each."""
    begun = clock.now
    for _ in range(times):
        clock.now += each_ms
        throttle.maybe_throttle(amount)
    return clock.now - begun


def test_what_is_slow_enough_goes_on() -> None:
    clock = ManualClock(0)
    assert passes(clock, Throttle(1000, clock=clock), 100, 100, 100) == 10_000


def test_what_is_too_fast_takes_as_long_as_it_should() -> None:
    clock = ManualClock(0)
    took = passes(clock, Throttle(1000, clock=clock), 1000, 100, 10)
    assert took == pytest.approx(100_000, rel=0.01)


def test_nothing_is_looked_at_within_a_period() -> None:
    clock = ManualClock(0)
    throttle = Throttle(1, clock=clock)
    assert passes(clock, throttle, 3, 1_000_000, CHECK_EVERY_MS // 3) == CHECK_EVERY_MS
    assert throttle.total == 3_000_000


def test_no_limit() -> None:
    clock = ManualClock(0)
    assert passes(clock, Throttle(1.7976931348623157e308, clock=clock), 10, 2**62, 1000) == 10_000


@pytest.mark.parametrize("limit", [1, 0, -1, float("nan")])
def test_the_limit_changes_in_the_middle_of_a_nap(limit: float) -> None:
    clock = ManualClock(0)
    throttle = Throttle(limit, clock=clock)
    checks = []

    def check() -> None:
        checks.append(clock.now)
        if len(checks) == 5:
            throttle.per_second = 1e9

    clock.now += 1000
    throttle.maybe_throttle(10_000, check)
    assert len(checks) == 5
    assert clock.now == 1500


def test_a_nap_is_broken_off_and_made_up_for_later() -> None:
    clock = ManualClock(0)
    throttle = Throttle(100, clock=clock)

    def stop() -> None:
        raise InterruptedError

    clock.now += 1000
    with pytest.raises(InterruptedError):
        throttle.maybe_throttle(1000, stop)
    assert clock.now == 1000
    throttle.maybe_throttle(0)
    assert clock.now == 10_000
