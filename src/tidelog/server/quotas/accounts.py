"""What each client, or those that share a quota, have had of it, and for how long they were held back.

There is an account once a quota holds for somebody. Clients choose their names, so accounts are let go of where there
are many: those that nobody has added to lately and that owe nothing, looked for once in a while only.
Called by: ``ClientQuotas``. Thread rule: the loop's; a report reads what it finds at that moment.
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
    """The quota's."""
    sharers: Sharers


class Account(NamedTuple):
    rate: SampledRate
    """What they had."""
    bucket: TokenBucket
    """What they may have at once; of a quota that works so."""
    waits: SampledTimes


class Accounts:
    def __init__(self, timers: Timers, *, windows: int, window_ms: int, burst_s: float) -> None:
        """``burst_s``: what comes in that time is what a bucket holds."""
        self._timers = timers
        self._windows = windows
        self._window_ms = window_ms
        self._burst_s = burst_s
        self._accounts: dict[AccountName, Account] = {}
        self._swept_ms = timers.monotonic_ms()

    def __len__(self) -> int:
        return len(self._accounts)

    def __iter__(self) -> Iterator[tuple[AccountName, Account]]:
        """As they are now; any thread may ask."""
        return iter(list(self._accounts.items()))

    def get(self, key: str, sharers: Sharers) -> Account | None:
        return self._accounts.get(AccountName(key, sharers))

    def of(self, key: str, sharers: Sharers) -> Account:
        """Made where there is none."""
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
        """Once in the time that it takes to become silent, or each new name would cost a look at all others."""
        now_ms = self._timers.monotonic_ms()
        if now_ms - self._swept_ms < self._windows * self._window_ms:
            return
        self._swept_ms = now_ms
        for name, account in list(self._accounts.items()):
            account.rate.per_second(now_ms)
            if account.rate.is_empty and account.bucket.is_full(now_ms):
                del self._accounts[name]
