"""The metrics of the cluster metadata, under Kafka's names: topics, partitions and brokers.

Each change updates the counts on the event loop. Thread rule: any thread may make a report, which reads the counts.
Source: Kafka's ``ControllerMetadataMetrics``, ``QuorumControllerMetrics``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog.runtime.metrics import MetricFamily, MetricRegistry, Sample
from tidelog.server.metadata.broker_metadata import BrokerMetadata
from tidelog.server.metadata.image import MetadataChange
from tidelog.server.metadata.partition_state import PartitionState

_CONTROLLER = MetricFamily("kafka.controller", "KafkaController")

ACTIVE_CONTROLLERS = _CONTROLLER.gauge(
    "ActiveControllerCount", "controllers", "1 while this process is the active controller, otherwise 0."
)
TOPICS = _CONTROLLER.gauge("GlobalTopicCount", "topics", "Topics in the cluster.")
PARTITIONS = _CONTROLLER.gauge("GlobalPartitionCount", "partitions", "Partitions of all topics.")
OFFLINE = _CONTROLLER.gauge("OfflinePartitionsCount", "partitions", "Partitions without a leader.")
IMBALANCED = _CONTROLLER.gauge(
    "PreferredReplicaImbalanceCount", "partitions", "Partitions whose leader is not their first (preferred) replica."
)
ACTIVE_BROKERS = _CONTROLLER.gauge("ActiveBrokerCount", "brokers", "Registered brokers that are not fenced.")
FENCED_BROKERS = _CONTROLLER.gauge(
    "FencedBrokerCount", "brokers", "Registered brokers that are fenced: stopped, or not started yet."
)
LAST_APPLIED = _CONTROLLER.gauge(
    "LastAppliedRecordOffset", "offset", "Offset of the last metadata record in the published image."
)

METRICS = tuple(_CONTROLLER.described)


class MetadataMetrics:
    """The counts between ``watch`` and ``close``."""

    def __init__(self, metadata: BrokerMetadata, node_id: int) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._partitions = self._offline = self._imbalanced = 0
        self._end_watching: list[Callable[[], None]] = []

    def watch(self, registry: MetricRegistry) -> None:
        """Count the current state and report it from now on. Thread rule: the event loop only."""
        for _, _, state in self._metadata.image.partitions():
            self._count(state, 1)
        self._end_watching = [self._metadata.subscribe(self._follow), registry.add_source(self._samples)]

    def close(self) -> None:
        """Stop counting and reporting; idempotent."""
        while self._end_watching:
            self._end_watching.pop()()

    def _follow(self, change: MetadataChange) -> None:
        for delta in change.partitions.values():
            if delta.before is not None:
                self._count(delta.before, -1)
            if delta.after is not None:
                self._count(delta.after, 1)

    def _count(self, state: PartitionState, times: int) -> None:
        self._partitions += times
        self._offline += times * (not state.has_leader)
        self._imbalanced += times * (not state.has_preferred_leader)

    def _samples(self) -> Iterator[Sample]:
        image = self._metadata.image
        brokers = list(image.brokers.values())
        fenced = sum(broker.is_fenced for broker in brokers)
        for description, value in (
            (ACTIVE_CONTROLLERS, int(image.controller_id == self._node_id)),
            (TOPICS, len(image.topics)),
            (PARTITIONS, self._partitions),
            (OFFLINE, self._offline),
            (IMBALANCED, self._imbalanced),
            (ACTIVE_BROKERS, len(brokers) - fenced),
            (FENCED_BROKERS, fenced),
            (LAST_APPLIED, self._metadata.applied_offset),
        ):
            yield Sample.gauge(description.named(), value)
