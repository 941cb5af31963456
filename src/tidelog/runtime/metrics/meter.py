"""A meter of events: their count, and rates a second over the last 1, 5 and 15 minutes and in total.

A rate is a moving average with exponential weights, updated every 5 seconds like Unix's load average. After each
interval it changes by ``alpha * (events / 5 - rate)`` with ``alpha = 1 - exp(-5 / (60 * minutes))``. The first interval
sets it. No thread updates it: the next event or report catches up on the intervals that have ended. Thread rule: any
thread. A meter has its own lock. Source: Yammer's ``Meter`` and ``EWMA``.
"""

from __future__ import annotations

import math
import threading

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock

INTERVAL_MS = 5_000


class MovingRate:
    """A rate over a number of minutes, in events a second. It has no lock."""

    __slots__ = ("_alpha", "_is_set", "value")

    def __init__(self, minutes: int) -> None:
        self._alpha = 1 - math.exp(-INTERVAL_MS / 60_000 / minutes)
        self._is_set = False
        self.value = 0.0

    def end_intervals(self, events: int, intervals: int) -> None:
        """Apply ``intervals`` ended intervals: ``events`` came in the first, none in the others."""
        rate = events * 1000 / INTERVAL_MS
        if self._is_set:
            self.value += self._alpha * (rate - self.value)
        else:
            self.value = rate
            self._is_set = True
        self.value *= (1 - self._alpha) ** (intervals - 1)


class Meter:
    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._count = 0
        self._events = 0  # in the current interval
        self._rates = (MovingRate(1), MovingRate(5), MovingRate(15))
        self._begun_ms = self._interval_ms = clock.monotonic_ms()

    def mark(self, events: int = 1) -> None:
        with self._lock:
            self._catch_up(self._clock.monotonic_ms())
            self._count += events
            self._events += events

    @property
    def count(self) -> int:
        return self._count

    def values(self) -> dict[str, int | float]:
        """Return the values for a Sample."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            self._catch_up(now_ms)
            elapsed_ms = now_ms - self._begun_ms
            one, five, fifteen = self._rates
            return {
                "Count": self._count,
                "MeanRate": self._count * 1000 / elapsed_ms if elapsed_ms else 0.0,
                "OneMinuteRate": one.value,
                "FiveMinuteRate": five.value,
                "FifteenMinuteRate": fifteen.value,
            }

    def _catch_up(self, now_ms: int) -> None:
        intervals = (now_ms - self._interval_ms) // INTERVAL_MS
        if intervals > 0:
            for rate in self._rates:
                rate.end_intervals(self._events, intervals)
            self._events = 0
            self._interval_ms += intervals * INTERVAL_MS
