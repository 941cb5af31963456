"""The metrics of the broker's server under Kafka's names: its state, connections and requests.

Thread rule: requests are counted on the event loop. Any thread may make a report, which reads plain numbers. Source:
Kafka's ``KafkaServer``, ``SocketServer``, ``RequestChannel.Metrics``.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from tidelog.protocol.api_key import ApiKey
from tidelog.replication.broker_state import BrokerState
from tidelog.runtime import ScheduledTask, Scheduler
from tidelog.runtime.metrics import MetricFamily, MetricRegistry, Sample
from tidelog.server.network.listener import Listener

_LISTENER = MetricFamily("kafka.server", "socket-server-metrics", ("listener",))

BROKER_STATE = MetricFamily("kafka.server", "KafkaServer").gauge(
    "BrokerState", "state", "1 starting, 2 joining the cluster, 3 running, 7 shutting down."
)
REQUESTS = MetricFamily("kafka.network", "RequestMetrics").meter(
    "RequestsPerSec",
    "requests",
    "Requests of an API in a version, with or without a response. The meter exists from the first request on.",
    "request",
    "version",
)
MEMORY_USED = MetricFamily("kafka.network", "SocketServer").gauge(
    "MemoryPoolUsed", "bytes", "Memory of requests that are being read or handled."
)
CONNECTIONS = _LISTENER.gauge(
    "connection-count", "connections", "Open connections. In Kafka an attribute, by network thread."
)
ACCEPTED = _LISTENER.gauge(
    "connection-creation-total", "connections", "Connections accepted since the start. An attribute in Kafka."
)
ACCEPT_RATE = _LISTENER.gauge(
    "connection-accept-rate", "connections/s", "Connections accepted per second, over the last 30 to 60 seconds."
)
ACCEPT_WAITS = _LISTENER.gauge(
    "connection-accept-throttle-time",
    "ms",
    "The mean wait of connections that exceeded `max.connection.creation.rate`, over the last 30 to 60 seconds.",
)
ADDRESS_WAITS = _LISTENER.gauge(
    "ip-connection-accept-throttle-time",
    "ms",
    "The mean wait of connections that exceeded the quota of their address, over the last 30 to 60 seconds.",
)

AUTHENTICATED = _LISTENER.gauge(
    "successful-authentication-total", "clients", "Successful authentications by TLS or SASL. An attribute in Kafka."
)
NOT_AGAIN = _LISTENER.gauge(
    "successful-authentication-no-reauth-total",
    "clients",
    "The clients among them that cannot reauthenticate (KIP-368). An attribute in Kafka.",
)
NOT_AUTHENTICATED = _LISTENER.gauge(
    "failed-authentication-total",
    "clients",
    "Failed TLS handshakes and SASL authentications. An attribute in Kafka.",
)
REAUTHENTICATED = _LISTENER.gauge(
    "successful-reauthentication-total",
    "authentications",
    "Successful reauthentications of a connection. An attribute in Kafka.",
)
NOT_REAUTHENTICATED = _LISTENER.gauge(
    "failed-reauthentication-total", "authentications", "Failed reauthentications. An attribute in Kafka."
)
EXPIRED = _LISTENER.gauge(
    "expired-connections-killed-count",
    "connections",
    "Connections closed because their authentication had expired. In Kafka an attribute, by network thread.",
)

COLLECT_EVERY_MS = 5_000
"""The interval at which meters update their rates."""

METRICS = (BROKER_STATE, REQUESTS, MEMORY_USED, *_LISTENER.described)


class Serving(Protocol):
    """The part of the broker that the metrics read."""

    @property
    def state(self) -> BrokerState: ...

    @property
    def listeners(self) -> Sequence[Listener]: ...


class ServerMetrics:
    """The server's metrics and their states: *new* (``count`` is allowed) -> ``watch`` -> ``close``.

    Requests are counted in plain numbers, so a request costs next to nothing. A report moves the counts to the meters.
    If there are reporters, a task does so every few seconds too, which keeps the rates right.
    """

    def __init__(self, registry: MetricRegistry) -> None:
        self._registry = registry
        self._counts: Counter[tuple[ApiKey, int]] = Counter()
        """Requests since the start."""
        self.errors: dict[ApiKey, Counter[int]] = {}
        """The requests whose handlers failed, by API and error code."""
        self._collected: Counter[tuple[ApiKey, int]] = Counter()
        """The requests that the meters include."""
        self._lock = threading.Lock()
        self._remove_source: Callable[[], None] = lambda: None
        self._task: ScheduledTask | None = None

    def count(self, api: ApiKey, version: int) -> None:
        """Count a request. Thread rule: the event loop only."""
        self._counts[api, version] += 1

    def count_error(self, api: ApiKey, code: int) -> None:
        """Count a request whose handler failed. Thread rule: the event loop only."""
        self.errors.setdefault(api, Counter())[code] += 1

    def counts(self) -> dict[ApiKey, dict[int, int]]:
        """Return the requests since the start, by API and version. Thread rule: the event loop only."""
        found: dict[ApiKey, dict[int, int]] = {}
        for (api, version), count in self._counts.items():
            found.setdefault(api, {})[version] = count
        return found

    def watch(self, broker: Serving, scheduler: Scheduler | None = None) -> None:
        """Report on ``broker``. Without a scheduler, requests go to meters only at reports."""

        def samples() -> Iterator[Sample]:
            self.collect()
            yield from _samples(broker)

        self._remove_source = self._registry.add_source(samples)
        if scheduler is not None:
            self._task = scheduler.schedule(
                "server-metrics", self.collect, delay_ms=COLLECT_EVERY_MS, period_ms=COLLECT_EVERY_MS
            )

    def collect(self) -> None:
        """Move the counts since the last call to the meters. Thread rule: any thread."""
        with self._lock:
            for key, count in list(self._counts.items()):
                if count != self._collected[key]:
                    api, version = key
                    meter = self._registry.meter(REQUESTS.named(api.title, str(version)))
                    meter.mark(count - self._collected[key])
                    self._collected[key] = count

    def close(self) -> None:
        """Remove all metrics from the registry; idempotent."""
        self._remove_source()
        if self._task is not None:
            self._task.cancel()
        with self._lock:
            for api, version in self._collected:
                self._registry.remove(REQUESTS.named(api.title, str(version)))


def _samples(broker: Serving) -> Iterator[Sample]:
    yield Sample.gauge(BROKER_STATE.named(), broker.state)
    yield Sample.gauge(MEMORY_USED.named(), sum(listener.request_bytes for listener in broker.listeners))
    for listener in broker.listeners:
        name = listener.endpoint.name
        yield Sample.gauge(CONNECTIONS.named(name), len(listener.connections))
        yield Sample.gauge(ACCEPTED.named(name), listener.accepted)
        yield Sample.gauge(ACCEPT_RATE.named(name), listener.accepts.rate)
        yield Sample.gauge(ACCEPT_WAITS.named(name), listener.waits.mean_ms)
        yield Sample.gauge(ADDRESS_WAITS.named(name), listener.address_waits.mean_ms)
        yield from _authentication_samples(listener)


def _authentication_samples(listener: Listener) -> Iterator[Sample]:
    name, counts = listener.endpoint.name, listener.authentications
    yield Sample.gauge(AUTHENTICATED.named(name), counts.successful)
    yield Sample.gauge(NOT_AGAIN.named(name), counts.successful_no_reauth)
    yield Sample.gauge(NOT_AUTHENTICATED.named(name), counts.failed)
    yield Sample.gauge(REAUTHENTICATED.named(name), counts.successful_reauth)
    yield Sample.gauge(NOT_REAUTHENTICATED.named(name), counts.failed_reauth)
    yield Sample.gauge(EXPIRED.named(name), counts.expired)
