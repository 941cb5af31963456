"""A histogram: count, extremes, mean and deviation of all values, and percentiles of the recent ones.

Thread rule: any thread. A histogram has its own lock. Source: Yammer's ``Histogram`` (biased).
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock
from tidelog.runtime.metrics.reservoir import Reservoir, quantile

PERCENTILES = {
    "50thPercentile": 0.5,
    "75thPercentile": 0.75,
    "95thPercentile": 0.95,
    "98thPercentile": 0.98,
    "99thPercentile": 0.99,
    "999thPercentile": 0.999,
}


class Histogram:
    def __init__(self, clock: Clock = SYSTEM_CLOCK, random: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._recent = Reservoir(random)
        self._count = 0
        self._min = math.inf
        self._max = -math.inf
        self._mean = 0.0
        self._squares = 0.0  # the sum of squared distances from the mean (Welford)

    def update(self, value: float) -> None:
        with self._lock:
            self._count += 1
            self._min = min(self._min, value)
            self._max = max(self._max, value)
            distance = value - self._mean
            self._mean += distance / self._count
            self._squares += distance * (value - self._mean)
            self._recent.update(value, self._clock.monotonic_ms() / 1000)

    @property
    def count(self) -> int:
        return self._count

    def values(self) -> dict[str, int | float]:
        """Return the values for a Sample; all are 0 if nothing was measured."""
        with self._lock:
            recent = self._recent.values()
            count = self._count
            spread = {
                "Count": count,
                "Min": self._min if count else 0.0,
                "Max": self._max if count else 0.0,
                "Mean": self._mean,
                "StdDev": math.sqrt(self._squares / (count - 1)) if count > 1 else 0.0,
            }
        return spread | {name: quantile(recent, fraction) for name, fraction in PERCENTILES.items()}
