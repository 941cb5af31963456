"""The metrics of client quotas, under Kafka's names: usage and throttle times.

User names and client ids are percent-encoded, because they may have any characters. Clients choose their names, so the
number of reported entries is limited.
Thread rule: any thread may make a report; it reads the state of that moment.
Source: Kafka's ``ClientQuotaManager``, ``ClientRequestQuotaManager``, ``ControllerMutationQuotaManager``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final
from urllib.parse import quote

from tidelog.runtime.metrics import MetricDescription, MetricFamily, Sample
from tidelog.server.quotas.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
)

MAX_REPORTED: Final = 1000
"""The most entries in one report."""


def _described(kind: str, name: str, unit: str, meaning: str) -> tuple[MetricDescription, MetricDescription]:
    family = MetricFamily("kafka.server", kind, ("user", "client-id"))
    return (
        family.gauge(name, unit, f"{meaning}. The tags name the user, the client id or both that share the quota."),
        family.gauge("throttle-time", "ms", "Mean throttle time over the last 30 to 60 seconds."),
    )


_BY_QUOTA: Final = {
    PRODUCER_BYTE_RATE: _described("Produce", "byte-rate", "bytes/s", "Bytes of Produce requests"),
    CONSUMER_BYTE_RATE: _described("Fetch", "byte-rate", "bytes/s", "Bytes of records in Fetch responses"),
    REQUEST_PERCENTAGE: _described("Request", "request-time", "percent", "Time of requests on the event loop"),
    CONTROLLER_MUTATION_RATE: _described(
        "ControllerMutation",
        "tokens",
        "partitions",
        "Partitions that may be created or deleted at once (a negative value is owed)",
    ),
}

METRICS: tuple[MetricDescription, ...] = tuple(one for both in _BY_QUOTA.values() for one in both)


def quota_samples(quotas: ClientQuotas, now_ms: int) -> Iterator[Sample]:
    for (key, sharers), usage in islice(quotas.usages, MAX_REPORTED):
        had, waits = _BY_QUOTA[key]
        tags = _sanitized(sharers.user), _sanitized(sharers.client_id)
        value = usage.bucket.tokens if key == CONTROLLER_MUTATION_RATE else usage.rate.seen_per_second(now_ms)
        yield Sample.gauge(had.named(*tags), value)
        yield Sample.gauge(waits.named(*tags), usage.waits.mean_ms)


def _sanitized(name: str) -> str:
    """Encode a name as Kafka's ``Sanitizer`` does."""
    return quote(name, safe="").replace("~", "%7E")
