"""A meter of events: the total count, and the rate a second over the last 30 to 60 seconds.

Thread rule: any thread. A meter has its own lock. Source: Kafka's ``Meter`` of
``org.apache.kafka.common.metrics.stats``, with its default windows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tidelog.runtime.clock import SYSTEM_CLOCK
from tidelog.runtime.metrics.sampled.sampled_rate import SampledRate

WINDOWS = 2
WINDOW_MS = 30_000


class SampledMeter:
    def __init__(self, monotonic_ms: Callable[[], int] = SYSTEM_CLOCK.monotonic_ms) -> None:
        self._monotonic_ms = monotonic_ms
        self._lock = threading.Lock()
        self._count = 0
        self._rate = SampledRate(windows=WINDOWS, window_ms=WINDOW_MS)

    def mark(self, events: int = 1) -> None:
        if events:
            with self._lock:
                self._count += events
                self._rate.record(events, self._monotonic_ms())

    @property
    def count(self) -> int:
        """Events since the start."""
        return self._count

    @property
    def rate(self) -> float:
        """Events a second."""
        with self._lock:
            return self._rate.per_second(self._monotonic_ms())
