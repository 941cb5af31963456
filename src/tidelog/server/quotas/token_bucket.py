"""A token bucket that refills at a rate up to a burst and may go below 0.

Pure: the caller passes the time. Source: Kafka's ``TokenBucket``.
"""

from __future__ import annotations

from tidelog.runtime.metrics.sampled.sampled_rate import LONGEST_WAIT_MS


class TokenBucket:
    """A bucket that starts full. ``now_ms`` must not decrease from call to call."""

    __slots__ = ("_rate", "_tokens", "_updated_ms", "_window_s")

    def __init__(self, *, window_s: float) -> None:
        """Create a full bucket; the burst is the tokens of ``window_s`` seconds."""
        self._window_s = window_s
        self._rate = 0.0
        self._tokens = 0.0
        self._updated_ms: int | None = None

    @property
    def tokens(self) -> float:
        """The tokens at the last call; a negative number is owed."""
        return self._tokens

    def is_full(self, now_ms: int) -> bool:
        """Return True if the bucket is full at the rate of the last call."""
        if self._updated_ms is not None:
            self._fill(self._rate, now_ms)
        return self._updated_ms is None or self._tokens >= self._rate * self._window_s

    def take(self, amount: float, rate: float, now_ms: int) -> None:
        """Take ``amount`` tokens, which may leave a debt; ``rate`` is in tokens per second."""
        self._fill(rate, now_ms)
        self._tokens -= amount

    def wait_ms(self, rate: float, now_ms: int) -> int:
        """Return the time in ms until no token is owed."""
        self._fill(rate, now_ms)
        return round(min(-self._tokens * 1000 / rate, LONGEST_WAIT_MS)) if self._tokens < 0 else 0

    def _fill(self, rate: float, now_ms: int) -> None:
        self._rate = rate
        burst = rate * self._window_s
        if self._updated_ms is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + rate * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms
