"""The longest and the mean duration over the last 30 to 60 seconds.

Thread rule: any thread. An instance has its own lock. Source: Kafka's ``Max`` and ``Avg``, with their default windows.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidelog.runtime.clock import SYSTEM_CLOCK
from tidelog.runtime.metrics.sampled.sampled_meter import WINDOW_MS, WINDOWS


@dataclass(slots=True)
class _Sample:
    start_ms: int
    longest_ms: int = 0
    sum_ms: int = 0
    count: int = 0


class SampledTimes:
    def __init__(self, monotonic_ms: Callable[[], int] = SYSTEM_CLOCK.monotonic_ms) -> None:
        self._monotonic_ms = monotonic_ms
        self._lock = threading.Lock()
        self._samples: deque[_Sample] = deque()

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Record the duration of the body, unless it raises."""
        begun_ms = self._monotonic_ms()
        yield
        self.record(self._monotonic_ms() - begun_ms)

    def record(self, took_ms: int) -> None:
        with self._lock:
            now_ms = self._monotonic_ms()
            self._forget_old(now_ms)
            if not self._samples or now_ms - self._samples[-1].start_ms >= WINDOW_MS:
                self._samples.append(_Sample(now_ms))
            last = self._samples[-1]
            last.longest_ms = max(last.longest_ms, took_ms)
            last.sum_ms += took_ms
            last.count += 1

    @property
    def longest_ms(self) -> float:
        """NaN if nothing was recorded."""
        with self._lock:
            self._forget_old(self._monotonic_ms())
            return max((sample.longest_ms for sample in self._samples), default=math.nan)

    @property
    def mean_ms(self) -> float:
        """NaN if nothing was recorded."""
        with self._lock:
            self._forget_old(self._monotonic_ms())
            count = sum(sample.count for sample in self._samples)
            return sum(sample.sum_ms for sample in self._samples) / count if count else math.nan

    def _forget_old(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0].start_ms >= WINDOWS * WINDOW_MS:
            self._samples.popleft()
