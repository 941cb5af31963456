"""A rate over the last few windows of time, and the wait until it is low enough again.

The amounts of the last ``windows`` windows are kept. A new rate counts as if all but one of the windows had passed
without events, so a client may have a burst. With ``allows_burst`` False it counts from its first window on. Times are
parameters, and there is no lock. Source: Kafka's ``Rate``, ``SimpleRate``, ``SampledStat`` and ``QuotaUtils``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

LONGEST_WAIT_MS: Final = 2**31 - 1
"""The longest throttle time that a response can hold. A limit near 0 needs more."""


@dataclass(slots=True)
class _Sample:
    start_ms: int
    amount: float = 0.0


class SampledRate:
    """A rate whose times must not decrease from call to call."""

    __slots__ = ("_allows_burst", "_samples", "_sum", "_window_ms", "_windows")

    def __init__(self, *, windows: int, window_ms: int, allows_burst: bool = True) -> None:
        self._allows_burst = allows_burst
        self._windows = windows
        self._window_ms = window_ms
        self._samples: deque[_Sample] = deque()
        self._sum = 0.0

    def record(self, amount: float, now_ms: int) -> None:
        self._forget_old(now_ms)
        if not self._samples or now_ms - self._samples[-1].start_ms >= self._window_ms:
            self._samples.append(_Sample(now_ms))
        self._samples[-1].amount += amount
        self._sum += amount

    def per_second(self, now_ms: int) -> float:
        self._forget_old(now_ms)
        return self._sum * 1000 / self._span_ms(now_ms)

    def seen_per_second(self, now_ms: int) -> float:
        """Return the rate without a change of state, for a thread that does not record."""
        samples = [one for one in list(self._samples) if now_ms - one.start_ms < self._windows * self._window_ms]
        first_ms = samples[0].start_ms if samples else now_ms
        return sum(one.amount for one in samples) * 1000 / self._span_since(first_ms, now_ms)

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """Return the pause in ms until the rate falls to ``limit``; 0 if the rate is not above it, and for NaN."""
        rate = self.per_second(now_ms)
        if not rate > limit:
            return 0
        return round(min((rate - limit) / limit * self._span_ms(now_ms), LONGEST_WAIT_MS))

    @property
    def is_empty(self) -> bool:
        """True if no window was left at the last call."""
        return not self._samples

    def _forget_old(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0].start_ms >= self._windows * self._window_ms:
            self._sum -= self._samples.popleft().amount
        if not self._samples:
            self._sum = 0.0

    def _span_ms(self, now_ms: int) -> int:
        return self._span_since(self._samples[0].start_ms if self._samples else now_ms, now_ms)

    def _span_since(self, first_ms: int, now_ms: int) -> int:
        elapsed = now_ms - first_ms
        if not self._allows_burst:
            return max(elapsed, self._window_ms)
        missing = self._windows - 1 - elapsed // self._window_ms
        return max(elapsed + max(missing, 0) * self._window_ms, 1)
