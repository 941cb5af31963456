"""A timer of runs: their rate, and their durations in milliseconds. Source: Yammer's ``Timer``.

Thread rule: any thread.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock
from tidelog.runtime.metrics.histogram import Histogram
from tidelog.runtime.metrics.meter import Meter


class Timer:
    def __init__(
        self,
        clock: Clock = SYSTEM_CLOCK,
        random: Callable[[], float] = random.random,
        nanoseconds: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """``nanoseconds`` is a finer clock, for runs shorter than a millisecond."""
        self._runs = Meter(clock)
        self._durations = Histogram(clock, random)
        self._nanoseconds = nanoseconds

    def update(self, duration_ms: float) -> None:
        """Count a run of this duration. A negative one, after a clock error, is ignored as in Yammer."""
        if duration_ms >= 0:
            self._durations.update(duration_ms)
            self._runs.mark()

    @contextmanager
    def time(self) -> Iterator[None]:
        """Measure a block, also if it raises."""
        begun = self._nanoseconds()
        try:
            yield
        finally:
            self.update((self._nanoseconds() - begun) / 1_000_000)

    @property
    def count(self) -> int:
        return self._durations.count

    def values(self) -> dict[str, int | float]:
        """Return the values for a Sample."""
        return self._runs.values() | self._durations.values()
