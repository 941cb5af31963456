"""The usage of each quota by the clients that share it, and how long they were throttled.

An entry exists once a quota applies to a client. Clients choose their own names, so the entries must be limited. If
there are many, idle entries are removed: no usage in the windows, and a full token bucket.
Thread rule: the event loop only. A report may iterate from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.runtime.metrics.sampled.sampled_rate import SampledRate
from tidelog.runtime.metrics.sampled.sampled_times import SampledTimes
from tidelog.server.quotas.quota_lookup import Sharers
from tidelog.server.quotas.token_bucket import TokenBucket
from tidelog.server.timers import Timers

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
