"""The throttles of replication: bytes a second of the replicas that a topic names, as a leader and as a follower.

====================================  ================================================================================
setting                               effect
====================================  ================================================================================
``….replication.throttled.replicas``  a topic's throttled replicas: ``*``, or pairs of partition and broker
``….replication.throttled.rate``      the bytes a second of all throttled replicas of this broker together
====================================  ================================================================================

The bytes of throttled replicas count whether or not they are in sync. Above the rate, only replicas that are out of
sync wait: a leader returns no records to them, and a follower leaves them out of its fetches. So a reassignment is
slow, but ``acks=all`` is not. Thread rule: the event loop only; any thread may read the rate. Source: Kafka's
``ReplicationQuotaManager``, ``ReplicaManager.shouldLeaderThrottle`` and ``TopicConfigHandler`` (KIP-73).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.model import TopicPartition
from tidelog.runtime.metrics import MetricFamily, Sample
from tidelog.runtime.metrics.sampled.sampled_rate import SampledRate
from tidelog.server.configs.resource_type import ResourceType

_ALL: Final = "*"

SettingsOf = Callable[[ResourceType, str], Mapping[str, str]]


class Side(enum.Enum):
    """The side of replication that a quota limits; the value is part of the settings' names."""

    LEADER = "leader"
    FOLLOWER = "follower"

    @property
    def rate_key(self) -> str:
        return f"{self.value}.replication.throttled.rate"

    @property
    def replicas_key(self) -> str:
        return f"{self.value}.replication.throttled.replicas"


RATES: Final = {
    side: MetricFamily("kafka.server", f"{side.value.title()}Replication").gauge(
        "byte-rate", "bytes/s", f"Bytes of throttled replicas that this broker {verb}."
    )
    for side, verb in ((Side.LEADER, "sends as a leader"), (Side.FOLLOWER, "fetches as a follower"))
}
METRICS = tuple(RATES.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSetup:
    node_id: int
    settings_of: SettingsOf
    """Returns the settings of a topic, a broker, or all brokers (the empty name) in the metadata."""
    now_ms: Callable[[], int]
    windows: int = 11
    window_ms: int = 1000


class ReplicationQuota:
    def __init__(self, side: Side, setup: QuotaSetup) -> None:
        self._side = side
        self._setup = setup
        self._rate = SampledRate(windows=setup.windows, window_ms=setup.window_ms, allows_burst=False)
        self._throttled: dict[str, Collection[int] | None] = {}
        """The throttled partitions of topics that were asked for; None stands for all."""

    def is_throttled(self, partition: TopicPartition) -> bool:
        """Return True if this broker's replica is throttled."""
        topic, number = partition
        if topic not in self._throttled:
            self._throttled[topic] = self._throttled_of(topic)
        throttled = self._throttled[topic]
        return throttled is None or number in throttled

    @property
    def is_exceeded(self) -> bool:
        """True if the throttled replicas have had more bytes a second than they may have."""
        limit = self._limit
        return limit is not None and self._rate.per_second(self._setup.now_ms()) > limit

    def record(self, size: int) -> None:
        """Count bytes of throttled replicas."""
        if size:
            self._rate.record(size, self._setup.now_ms())

    def topics_changed(self, topics: Iterable[str]) -> None:
        """Read the settings of topics again."""
        for topic in topics:
            self._throttled.pop(topic, None)

    def samples(self) -> Iterator[Sample]:
        yield Sample.gauge(RATES[self._side].named(), self.rate)

    @property
    def limit(self) -> int | None:
        """The bytes a second that this broker's throttled replicas may have, or None."""
        return self._limit

    @property
    def rate(self) -> float:
        """The bytes a second of throttled replicas. Thread rule: any thread."""
        return self._rate.seen_per_second(self._setup.now_ms())

    @property
    def _limit(self) -> int | None:
        return broker_rate(self._setup.settings_of, self._setup.node_id, self._side.rate_key)

    def _throttled_of(self, topic: str) -> Collection[int] | None:
        text = self._setup.settings_of(ResourceType.TOPIC, topic).get(self._side.replicas_key, "").strip()
        if text == _ALL:
            return None
        pairs = (pair.strip().partition(":") for pair in text.split(",") if pair.strip())
        return {int(number) for number, _, broker_id in pairs if broker_id == str(self._setup.node_id)}


def broker_rate(settings_of: SettingsOf, node_id: int, key: str) -> int | None:
    """Return the bytes a second that a broker may have by a setting; None is no limit. These settings exist in the
    metadata only."""
    for name in (str(node_id), ""):
        text = settings_of(ResourceType.BROKER, name).get(key)
        if text is not None:
            return int(text)
    return None
