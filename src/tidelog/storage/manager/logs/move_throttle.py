"""The bytes a second that all moves of a broker between log directories may copy together.

A move copies nothing while the average of the last windows is above the rate. The records that are left once its future
log has caught up are copied at any rate, because appends wait for them. Thread rule: any thread. Source: Kafka's
``ReplicationQuotaManager`` with ``replica.alter.log.dirs.io.max.bytes.per.second``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tidelog.runtime import Clock
from tidelog.runtime.metrics.sampled.sampled_rate import SampledRate


class MoveThrottle:
    def __init__(
        self, clock: Clock, limit: Callable[[], int | None], *, windows: int = 11, window_ms: int = 1000
    ) -> None:
        """``limit`` returns the current bytes a second, or None for no limit."""
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        self._rate = SampledRate(windows=windows, window_ms=window_ms, allows_burst=False)

    @property
    def is_exceeded(self) -> bool:
        """True if moves must wait."""
        limit = self._limit()
        if limit is None:
            return False
        with self._lock:
            return self._rate.per_second(self._clock.monotonic_ms()) > limit

    def record(self, size: int) -> None:
        """Count copied bytes."""
        if size:
            with self._lock:
                self._rate.record(size, self._clock.monotonic_ms())
