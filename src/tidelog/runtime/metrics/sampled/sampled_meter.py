"""How often something happened in all, and how often in a second over the last half minute to minute.

Called by: whoever counts, reports. Thread rule: any thread; its own lock.
Source: Kafka's ``Meter`` of ``org.apache.kafka.common.metrics.stats``, with the windows that are its default.
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
        """Since the start."""
        return self._count

    @property
    def rate(self) -> float:
        """In a second."""
        with self._lock:
            return self._rate.per_second(self._monotonic_ms())
