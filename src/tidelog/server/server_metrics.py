"""The metrics of a broker's server, under Kafka's names: what it is at, its connections, the requests it gets.

Called by: Broker (``watch``), Requests (``of_request``). Thread rule: requests are marked on the loop; a report is made
by any thread, and reads plain numbers.
Source: Kafka's ``KafkaServer``, ``SocketServer``, ``RequestChannel.Metrics``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tidelog.protocol.api_key import ApiKey
from tidelog.runtime.metrics import Meter, MetricDescription, MetricKind, MetricRegistry, Sample

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def _of_listener(name: str, unit: str, meaning: str) -> MetricDescription:
    return MetricDescription(
        group="kafka.server",
        type="socket-server-metrics",
        name=name,
        tags=("listener",),
        kind=MetricKind.GAUGE,
        unit=unit,
        meaning=meaning,
    )


BROKER_STATE = MetricDescription(
    group="kafka.server",
    type="KafkaServer",
    name="BrokerState",
    kind=MetricKind.GAUGE,
    unit="state",
    meaning="1 starting, 2 recovering, 3 running, 6 and 7 shutting down.",
)
REQUESTS = MetricDescription(
    group="kafka.network",
    type="RequestMetrics",
    name="RequestsPerSec",
    tags=("request", "version"),
    kind=MetricKind.METER,
    unit="requests",
    meaning="Of an API in a version, answered or not. There from the first one on.",
)
MEMORY_USED = MetricDescription(
    group="kafka.network",
    type="SocketServer",
    name="MemoryPoolUsed",
    kind=MetricKind.GAUGE,
    unit="bytes",
    meaning="Of requests that are being read or answered.",
)
CONNECTIONS = _of_listener("connection-count", "connections", "Open now. In Kafka an attribute, by network thread.")
ACCEPTED = _of_listener("connection-creation-total", "connections", "Accepted since the start. An attribute in Kafka.")

METRICS: tuple[MetricDescription, ...] = (BROKER_STATE, REQUESTS, MEMORY_USED, CONNECTIONS, ACCEPTED)


class RequestMeters:
    """A meter for each API and version that was asked for."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._registry = registry
        self._meters: dict[tuple[ApiKey, int], Meter] = {}

    def mark(self, api: ApiKey, version: int) -> None:
        meter = self._meters.get((api, version))
        if meter is None:
            name = REQUESTS.named(api.title, str(version))
            meter = self._meters[api, version] = self._registry.meter(name)
        meter.mark()


def watch_server(registry: MetricRegistry, broker: Broker) -> Callable[[], None]:
    """Report of ``broker``; what is returned ends it."""

    def samples() -> Iterator[Sample]:
        yield Sample.gauge(BROKER_STATE.named(), broker.state)
        yield Sample.gauge(MEMORY_USED.named(), sum(listener.held_bytes for listener in broker.listeners))
        for listener in broker.listeners:
            yield Sample.gauge(CONNECTIONS.named(listener.endpoint.name), len(listener.connections))
            yield Sample.gauge(ACCEPTED.named(listener.endpoint.name), listener.accepted)

    return registry.add_source(samples)
