"""How often something is done and how long it takes, in milliseconds. Source: Yammer's ``Timer``.

Called by: whoever measures, reports. Thread rule: any thread.
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
        """``nanoseconds``: a finer clock, for what takes less than a millisecond."""
        self._runs = Meter(clock)
        self._durations = Histogram(clock, random)
        self._nanoseconds = nanoseconds

    def update(self, duration_ms: float) -> None:
        """It was done, and took so long; a negative duration (a clock went wrong) is left out, as Yammer does."""
        if duration_ms >= 0:
            self._durations.update(duration_ms)
            self._runs.mark()

    @contextmanager
    def time(self) -> Iterator[None]:
        """Measure a block; also one that ends with an error."""
        begun = self._nanoseconds()
        try:
            yield
        finally:
            self.update((self._nanoseconds() - begun) / 1_000_000)

    @property
    def count(self) -> int:
        return self._durations.count

    def values(self) -> dict[str, int | float]:
        """As a Sample has them."""
        return self._runs.values() | self._durations.values()
