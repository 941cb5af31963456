"""The metrics of a session with ZooKeeper, under Kafka's names.

Kafka's ``SessionState`` is a text, and a report has only numbers, so it is 1 or 0 here.
Thread rule: any thread. Source: Kafka's ``ZooKeeperClient``, ``KafkaZkClient``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock
from tidelog.runtime.metrics import Histogram, Meter, MetricDescription, MetricFamily, MetricKind, Sample

_SESSION: Final = MetricFamily("kafka.server", "SessionExpireListener")

STATE: Final = _SESSION.gauge("SessionState", "", "1 while the broker is connected to ZooKeeper, and otherwise 0.")
CONNECTS: Final = _SESSION.meter("ZooKeeperSyncConnectsPerSec", "connections", "New connections to ZooKeeper.")
DISCONNECTS: Final = _SESSION.meter("ZooKeeperDisconnectsPerSec", "connections", "Lost connections to ZooKeeper.")
EXPIRES: Final = _SESSION.meter("ZooKeeperExpiresPerSec", "sessions", "Sessions that ended without the broker's will.")
AUTH_FAILURES: Final = _SESSION.meter("ZooKeeperAuthFailuresPerSec", "attempts", "Refused attempts to authenticate.")
AUTHENTICATIONS: Final = _SESSION.meter(
    "ZooKeeperSaslAuthenticationsPerSec", "authentications", "Successful authentications with SASL."
)
READ_ONLY_CONNECTS: Final = _SESSION.meter(
    "ZooKeeperReadOnlyConnectsPerSec", "connections", "Connections to a server without a quorum: always 0."
)
LATENCY: Final = MetricFamily("kafka.server", "ZooKeeperClientMetrics").histogram(
    "ZooKeeperRequestLatencyMs", "ms", "Time from a request to its response."
)

_METERS: Final = (CONNECTS, DISCONNECTS, EXPIRES, AUTH_FAILURES, AUTHENTICATIONS, READ_ONLY_CONNECTS)
METRICS: tuple[MetricDescription, ...] = (STATE, *_METERS, LATENCY)


class SessionMeters:
    """The measurements of a session. ``is_connected`` is the state."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.is_connected = False
        self.latency = Histogram(clock)
        """The latency of requests in ms."""
        self._meters = {metric: Meter(clock) for metric in _METERS}

    def mark(self, metric: MetricDescription) -> None:
        self._meters[metric].mark()

    def samples(self) -> Iterator[Sample]:
        yield Sample.gauge(STATE.named(), int(self.is_connected))
        for metric, meter in self._meters.items():
            yield Sample(metric.named(), MetricKind.METER, meter.values())
        yield Sample(LATENCY.named(), MetricKind.HISTOGRAM, self.latency.values())
