"""The client quotas of this broker, which throttle clients. They cost nothing while none is set.

=====================  ===================================  ==========================================================
quota                  counts                               when
=====================  ===================================  ==========================================================
producer_byte_rate     bytes of Produce requests            with the response
consumer_byte_rate     bytes of records in Fetch responses  with the response
request_percentage     time on the event loop; 100 percent  after the response, so the next response carries the
                       is one second a second               throttle time, which is at most one window
controller_mutation_   partitions created and deleted       before the change: too many are refused; in old versions
rate                                                        of the API the client is only throttled
=====================  ===================================  ==========================================================

Quotas of IP addresses limit connections, not clients: see ``address_quotas``. A client above its quota gets its
throttle time in the response. Its connection is not read for that time, whether the client waits or not. A throttled
Fetch response still has the records that were read. Kafka sends none, and the client fetches them again. A crash loses
the counts: the rates start again at 0. Thread rule: the event loop only.

A request may be exempt from the request quota (``ClientConnection.is_exempt``); its connection is not. Exempt are Fetch
of followers, WriteTxnMarkers and Produce without acks. At a controller's listener these are exempt: Fetch,
FetchSnapshot, AlterPartition, Envelope and DescribeQuorum. Followers have no consumer quota either. An unauthorized
request is never exempt. In Kafka, a follower's unauthorized Fetch is.

Source: Kafka's ``ClientQuotaManager``, ``ClientRequestQuotaManager``, ``RequestHandlerHelper`` (KIP-13, KIP-124,
KIP-219, KIP-599).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.runtime.timers import Timers
from tidelog.server.metadata.image import QuotaEntity
from tidelog.server.network.request_context import RequestContext
from tidelog.server.quotas.quota_lookup import FoundQuota, find_quota
from tidelog.server.quotas.quota_usage import QuotaUsages

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
        self.usages = QuotaUsages(timers, windows=self._windows, window_ms=self._window_ms, burst_s=burst_s)
        self.is_on = False
        """True if any client quota is set. Otherwise nothing is checked or counted."""

    def change(self, quotas: Quotas) -> None:
        """Replace the quotas by those of the metadata. Usage that was counted before stays."""
        self._quotas = {entity: dict(limits) for entity, limits in quotas.items() if entity[0][0] != "ip"}
        self.is_on = bool(self._quotas)

    def limit_of(self, key: str, user: str, client_id: str) -> float | None:
        """Return the limit that applies to a client, or None."""
        found = find_quota(self._quotas, key, user, client_id)
        return None if found is None else found.limit

    def throttle(self, context: RequestContext, *, produced: int = 0, fetched: int = 0) -> int:
        """Count the bytes ``produced`` and ``fetched``, and return the client's throttle time in ms. The client's
        connection is not read for that time."""
        if not self.is_on:
            return 0
        waits = [0] if context.client.is_exempt else [self._wait_ms(REQUEST_PERCENTAGE, context, self._window_ms)]
        for key, count in ((PRODUCER_BYTE_RATE, produced), (CONSUMER_BYTE_RATE, fetched)):
            if count:
                self._count(key, context, count)
                waits.append(self._wait_ms(key, context))
        context.client.throttle_ms = max(context.client.throttle_ms, *waits)
        return context.client.throttle_ms

    def max_fetch_bytes(self, context: RequestContext) -> int | None:
        """Return the most bytes for one Fetch response, or None without a limit: the quota of all windows but one."""
        found = self._find(CONSUMER_BYTE_RATE, context) if self.is_on else None
        most = math.inf if found is None else found.limit * (self._windows - 1) * self._window_ms / 1000
        return int(most) if math.isfinite(most) else None

    def limits_changes(self, context: RequestContext) -> bool:
        """Return True if the client has a quota for creating and deleting partitions."""
        return self.is_on and self._find(CONTROLLER_MUTATION_RATE, context) is not None

    def may_change(self, context: RequestContext, partitions: int, *, is_strict: bool) -> bool:
        """Return True if the client may create or delete that many partitions now, and count them if so.

        If ``is_strict`` is False, the change is always allowed and the client is throttled for it.
        """
        found = self._find(CONTROLLER_MUTATION_RATE, context)
        if found is None:
            return True
        now_ms = self._timers.monotonic_ms()
        usage = self.usages.get_or_create(CONTROLLER_MUTATION_RATE, found.sharers)
        wait_ms = usage.bucket.wait_ms(found.limit, now_ms)
        if not (is_strict and wait_ms):
            usage.bucket.take(partitions, found.limit, now_ms)
        if not is_strict:
            wait_ms = usage.bucket.wait_ms(found.limit, now_ms)
        if wait_ms:
            usage.waits.record(wait_ms)
        context.client.throttle_ms = max(context.client.throttle_ms, wait_ms)
        return not (is_strict and wait_ms)

    def count_time(self, context: RequestContext, spent_ms: float) -> None:
        """Count the time in ms that a request took on the event loop."""
        if not context.client.is_exempt:
            self._count(REQUEST_PERCENTAGE, context, spent_ms * _PERCENT_A_MS)

    def _count(self, key: str, context: RequestContext, amount: float) -> None:
        found = self._find(key, context)
        if found is not None:
            self.usages.get_or_create(key, found.sharers).rate.record(amount, self._timers.monotonic_ms())

    def _wait_ms(self, key: str, context: RequestContext, longest_ms: int | None = None) -> int:
        found = self._find(key, context)
        usage = None if found is None else self.usages.get(key, found.sharers)
        if found is None or usage is None:
            return 0
        wait_ms = usage.rate.wait_ms(found.limit, self._timers.monotonic_ms())
        wait_ms = wait_ms if longest_ms is None else min(wait_ms, longest_ms)
        if wait_ms:
            usage.waits.record(wait_ms)
        return wait_ms

    def _find(self, key: str, context: RequestContext) -> FoundQuota | None:
        return find_quota(self._quotas, key, context.principal.name, context.client_id or "")
