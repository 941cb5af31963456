"""The usage of each quota by the clients that share it, and how long they were throttled.

An entry exists once a quota applies to a client. Clients choose their own names, so the entries must be limited. If
there are many, idle entries are removed: no usage in the windows, and a full token bucket. A token bucket refills at a
rate up to a burst and may go below 0. Thread rule: the event loop only. A report may iterate from any thread. Source:
Kafka's ``TokenBucket``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.runtime.metrics.sampled.sampled_rate import LONGEST_WAIT_MS, SampledRate
from tidelog.runtime.metrics.sampled.sampled_times import SampledTimes
from tidelog.runtime.timers import Timers
from tidelog.server.quotas.quota_lookup import Sharers


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


_MANY = 1000


class UsageKey(NamedTuple):
    key: str
    """The quota's key."""
    sharers: Sharers


class QuotaUsage(NamedTuple):
    rate: SampledRate
    """The usage over the last windows."""
    bucket: TokenBucket
    """The tokens left; only ``controller_mutation_rate`` takes from it."""
    waits: SampledTimes
    """The throttle times."""


class QuotaUsages:
    def __init__(self, timers: Timers, *, windows: int, window_ms: int, burst_s: float) -> None:
        """Create no entries yet; a bucket holds the tokens of ``burst_s`` seconds."""
        self._timers = timers
        self._windows = windows
        self._window_ms = window_ms
        self._burst_s = burst_s
        self._usages: dict[UsageKey, QuotaUsage] = {}
        self._swept_ms = timers.monotonic_ms()

    def __len__(self) -> int:
        return len(self._usages)

    def __iter__(self) -> Iterator[tuple[UsageKey, QuotaUsage]]:
        """Iterate over a copy of the entries; any thread may call it."""
        return iter(list(self._usages.items()))

    def get(self, key: str, sharers: Sharers) -> QuotaUsage | None:
        return self._usages.get(UsageKey(key, sharers))

    def get_or_create(self, key: str, sharers: Sharers) -> QuotaUsage:
        """Return the usage, and create it if it does not exist."""
        name = UsageKey(key, sharers)
        usage = self._usages.get(name)
        if usage is None:
            if len(self._usages) >= _MANY:
                self._remove_idle()
            usage = self._usages[name] = QuotaUsage(
                SampledRate(windows=self._windows, window_ms=self._window_ms),
                TokenBucket(window_s=self._burst_s),
                SampledTimes(self._timers.monotonic_ms),
            )
        return usage

    def _remove_idle(self) -> None:
        """Remove idle entries. It runs at most once in all windows' time, or each new name would scan all entries."""
        now_ms = self._timers.monotonic_ms()
        if now_ms - self._swept_ms < self._windows * self._window_ms:
            return
        self._swept_ms = now_ms
        for name, usage in list(self._usages.items()):
            usage.rate.per_second(now_ms)
            if usage.rate.is_empty and usage.bucket.is_full(now_ms):
                del self._usages[name]
