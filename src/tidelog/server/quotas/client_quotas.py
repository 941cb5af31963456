"""What clients have had of this broker, held against their quotas. Off, and free, while no quota is set.

=====================  ===================================  ==========================================================
quota                  what counts                          when
=====================  ===================================  ==========================================================
producer_byte_rate     bytes of Produce requests            with the answer
consumer_byte_rate     bytes of records in Fetch answers    with the answer
request_percentage     time on the loop, 100 a second       after the answer: the next one tells, and waits one window
                                                            at most
controller_mutation_   partitions made and deleted          before they are: those that are too many are refused,
rate                                                        or, in old versions, only paid for with time
=====================  ===================================  ==========================================================

Quotas of addresses are about connections, not clients: ``address_quotas``.
A client that had more than its quota is told how long it is held back (``throttle_time``), and its connection is not
read for as long, whether it heeds that or not. Records that were read for it are sent all the same, where Kafka sends
none and has them fetched once more.
What a crash leaves: nothing; rates begin anew.
Thread rule: the loop's. Source: Kafka's ``ClientQuotaManager``, ``ClientRequestQuotaManager`` (KIP-13, KIP-124,
KIP-219, KIP-599).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.server.metadata.image import QuotaEntity
from tidelog.server.quotas.accounts import Accounts
from tidelog.server.quotas.quota_lookup import FoundQuota, find_quota
from tidelog.server.request_context import RequestContext
from tidelog.server.timers import Timers

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"

_PERCENT_A_MS: Final = 0.1

Quotas = Mapping[QuotaEntity, Mapping[str, float]]


class ClientQuotas:
    def __init__(self, config: BrokerConfig, timers: Timers) -> None:
        self._windows = config.number("quota.window.num")
        self._window_ms = config.number("quota.window.size.seconds") * 1000
        self._timers = timers
        self._quotas: Quotas = {}
        burst_s = config.number("controller.quota.window.num") * config.number("controller.quota.window.size.seconds")
        self.accounts = Accounts(timers, windows=self._windows, window_ms=self._window_ms, burst_s=burst_s)
        self.is_on = False
        """Whether anybody has a quota: if not, nothing need be asked or told."""

    def change(self, quotas: Quotas) -> None:
        """The quotas of the cluster are these now. Who was counted before stays counted."""
        self._quotas = {entity: dict(limits) for entity, limits in quotas.items() if entity[0][0] != "ip"}
        self.is_on = bool(self._quotas)

    def throttle(self, context: RequestContext, *, produced: int = 0, fetched: int = 0) -> int:
        """For how many ms the client of an answer is held back; its connection is. ``produced``, ``fetched``: bytes."""
        if not self.is_on:
            return 0
        waits = [self._wait_ms(REQUEST_PERCENTAGE, context, longest_ms=self._window_ms)]
        for key, count in ((PRODUCER_BYTE_RATE, produced), (CONSUMER_BYTE_RATE, fetched)):
            if count:
                self._count(key, context, count)
                waits.append(self._wait_ms(key, context))
        context.peer.held_back_ms = max(context.peer.held_back_ms, *waits)
        return context.peer.held_back_ms

    def most_fetched(self, context: RequestContext) -> int | None:
        """Bytes that one answer may have: what the client may fetch in all windows but one. None: no limit."""
        found = self._find(CONSUMER_BYTE_RATE, context) if self.is_on else None
        most = math.inf if found is None else found.limit * (self._windows - 1) * self._window_ms / 1000
        return int(most) if math.isfinite(most) else None

    def limits_changes(self, context: RequestContext) -> bool:
        """Whether the client has a quota for partitions that it makes and deletes."""
        return self.is_on and self._find(CONTROLLER_MUTATION_RATE, context) is not None

    def may_change(self, context: RequestContext, partitions: int, *, is_strict: bool) -> bool:
        """Whether the client may make, or delete, so many more; they are on its account then.

        ``is_strict`` False: it may in any case, and is held back for it.
        """
        found = self._find(CONTROLLER_MUTATION_RATE, context)
        if found is None:
            return True
        now_ms = self._timers.monotonic_ms()
        account = self.accounts.of(CONTROLLER_MUTATION_RATE, found.sharers)
        wait_ms = account.bucket.wait_ms(found.limit, now_ms)
        if not (is_strict and wait_ms):
            account.bucket.take(partitions, found.limit, now_ms)
        if not is_strict:
            wait_ms = account.bucket.wait_ms(found.limit, now_ms)
        if wait_ms:
            account.waits.record(wait_ms)
        context.peer.held_back_ms = max(context.peer.held_back_ms, wait_ms)
        return not (is_strict and wait_ms)

    def count_time(self, context: RequestContext, spent_ms: int) -> None:
        """The loop was busy with a request for so long."""
        if spent_ms:
            self._count(REQUEST_PERCENTAGE, context, spent_ms * _PERCENT_A_MS)

    def _count(self, key: str, context: RequestContext, amount: float) -> None:
        found = self._find(key, context)
        if found is not None:
            self.accounts.of(key, found.sharers).rate.record(amount, self._timers.monotonic_ms())

    def _wait_ms(self, key: str, context: RequestContext, longest_ms: int | None = None) -> int:
        found = self._find(key, context)
        account = None if found is None else self.accounts.get(key, found.sharers)
        if found is None or account is None:
            return 0
        wait_ms = account.rate.wait_ms(found.limit, self._timers.monotonic_ms())
        wait_ms = wait_ms if longest_ms is None else min(wait_ms, longest_ms)
        if wait_ms:
            account.waits.record(wait_ms)
        return wait_ms

    def _find(self, key: str, context: RequestContext) -> FoundQuota | None:
        return find_quota(self._quotas, key, context.principal.name, context.client_id or "")
