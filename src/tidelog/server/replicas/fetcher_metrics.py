"""The metrics of this broker's fetchers, under Kafka's names.

A lag counts from the leader's high watermark in the last response. Thread rule: any thread may make a report. Source:
Kafka's ``AbstractFetcherManager``, ``FetcherLagStats`` and ``FetcherStats``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.runtime.metrics import MetricFamily, MetricRegistry, Sample

if TYPE_CHECKING:
    from tidelog.client.model.address import Address
    from tidelog.server.replicas.fetcher_manager import FetcherManager

_MANAGER = MetricFamily("kafka.server", "ReplicaFetcherManager", ("clientId",))
_LAG = MetricFamily("kafka.server", "FetcherLagMetrics", ("clientId",))
_STATS = MetricFamily("kafka.server", "FetcherStats", ("clientId", "brokerHost", "brokerPort"))
_CLIENT_ID = "Replica"

MAX_LAG = _MANAGER.gauge("MaxLag", "records", "The largest lag of a partition that this broker follows.")
MIN_FETCH_RATE = _MANAGER.gauge(
    "MinFetchRate", "requests a second", "The smallest one-minute rate of requests of a fetcher."
)
DEAD = _MANAGER.gauge("DeadThreadCount", "fetchers", "Fetchers that an unexpected error has ended.")
FAILED = _MANAGER.gauge(
    "FailedPartitionsCount", "partitions", "Followed partitions that are not fetched because of an error."
)
LAG = _LAG.gauge("ConsumerLag", "records", "Records that a follower lacks.", "topic", "partition")
REQUESTS = _STATS.meter("RequestsPerSec", "requests", "Fetch responses of a fetcher.")
BYTES = _STATS.meter("BytesPerSec", "bytes", "Bytes of records that a fetcher receives.")

METRICS = (*_MANAGER.described, *_LAG.described, *_STATS.described)


def client_id(leader_id: int, number: int) -> str:
    """Return the client id of a fetcher in metrics."""
    return f"ReplicaFetcherThread-{number}-{leader_id}"


class FetcherStats:
    """The meters of one fetcher, until it ends."""

    def __init__(self, registry: MetricRegistry, key: tuple[int, int], address: Address | None) -> None:
        host, port = ("", "") if address is None else (address.host, str(address.port))
        self._registry = registry
        self._names = [metric.named(client_id(*key), host, port) for metric in (REQUESTS, BYTES)]
        self._requests, self._bytes = (registry.meter(name) for name in self._names)

    def note(self, size: int) -> None:
        """Count a response with ``size`` bytes of records."""
        self._requests.mark()
        self._bytes.mark(size)

    @property
    def request_rate(self) -> float:
        return self._requests.values()["OneMinuteRate"]

    @property
    def byte_rate(self) -> float:
        return self._bytes.values()["OneMinuteRate"]

    def remove(self) -> None:
        for name in self._names:
            self._registry.remove(name)


def fetcher_samples(manager: FetcherManager | None) -> Iterator[Sample]:
    """Yield the samples; ``manager`` is None before this broker follows a partition."""
    rates = [] if manager is None else manager.request_rates
    lags = [] if manager is None else list(manager.lags)
    yield Sample.gauge(MAX_LAG.named(_CLIENT_ID), max((replica.lag for _, replica in lags), default=0))
    yield Sample.gauge(MIN_FETCH_RATE.named(_CLIENT_ID), min(rates, default=0.0))
    yield Sample.gauge(DEAD.named(_CLIENT_ID), 0 if manager is None else manager.dead_fetchers)
    yield Sample.gauge(FAILED.named(_CLIENT_ID), 0 if manager is None else len(manager.failed_partitions))
    for key, replica in lags:
        topic, number = replica.partition
        yield Sample.gauge(LAG.named(client_id(*key), topic, str(number)), replica.lag)
