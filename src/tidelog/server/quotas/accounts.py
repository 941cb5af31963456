"""The usage of each quota by the clients that share it, and how long they were throttled.

An account exists once a quota applies to a client. Clients choose their own names, so the accounts must be limited. If
there are many, idle accounts are removed: no usage in the windows, and a full token bucket.
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


class AccountName(NamedTuple):
    key: str
    """The quota's key."""
    sharers: Sharers


class Account(NamedTuple):
    rate: SampledRate
    """The usage over the last windows."""
    bucket: TokenBucket
    """The tokens left; only ``controller_mutation_rate`` takes from it."""
    waits: SampledTimes
    """The throttle times."""


class Accounts:
    def __init__(self, timers: Timers, *, windows: int, window_ms: int, burst_s: float) -> None:
        """Create no accounts yet; a bucket holds the tokens of ``burst_s`` seconds."""
        self._timers = timers
        self._windows = windows
        self._window_ms = window_ms
        self._burst_s = burst_s
        self._accounts: dict[AccountName, Account] = {}
        self._swept_ms = timers.monotonic_ms()

    def __len__(self) -> int:
        return len(self._accounts)

    def __iter__(self) -> Iterator[tuple[AccountName, Account]]:
        """Iterate over a copy of the accounts; any thread may call it."""
        return iter(list(self._accounts.items()))

    def get(self, key: str, sharers: Sharers) -> Account | None:
        return self._accounts.get(AccountName(key, sharers))

    def of(self, key: str, sharers: Sharers) -> Account:
        """Return the account, and create it if it does not exist."""
        name = AccountName(key, sharers)
        account = self._accounts.get(name)
        if account is None:
            if len(self._accounts) >= _MANY:
                self._forget_the_silent()
            account = self._accounts[name] = Account(
                SampledRate(windows=self._windows, window_ms=self._window_ms),
                TokenBucket(window_s=self._burst_s),
                SampledTimes(self._timers.monotonic_ms),
            )
        return account

    def _forget_the_silent(self) -> None:
        """Remove idle accounts. It runs at most once in all windows' time, or each new name would scan all accounts."""
        now_ms = self._timers.monotonic_ms()
        if now_ms - self._swept_ms < self._windows * self._window_ms:
            return
        self._swept_ms = now_ms
        for name, account in list(self._accounts.items()):
            account.rate.per_second(now_ms)
            if account.rate.is_empty and account.bucket.is_full(now_ms):
                del self._accounts[name]
