"""The meters of replication, which count events. Thread rule: any thread. Source: Kafka's ``ReplicaManager`` and
``BrokerTopicMetrics``."""

from __future__ import annotations

from tidelog.runtime.metrics import MetricFamily, MetricRegistry

_MANAGER = MetricFamily("kafka.server", "ReplicaManager")
_TOPICS = MetricFamily("kafka.server", "BrokerTopicMetrics")

ISR_EXPANDS = _MANAGER.meter("IsrExpandsPerSec", "changes", "In-sync replicas of led partitions that grew.")
ISR_SHRINKS = _MANAGER.meter("IsrShrinksPerSec", "changes", "In-sync replicas of led partitions that shrank.")
FAILED_ISR_UPDATES = _MANAGER.meter(
    "FailedIsrUpdatesPerSec", "changes", "Proposed in-sync replicas that the controller refused."
)
REPLICATED_IN = _TOPICS.meter("ReplicationBytesInPerSec", "bytes", "Bytes that this broker appends as a follower.")
REPLICATED_OUT = _TOPICS.meter("ReplicationBytesOutPerSec", "bytes", "Bytes that followers fetch from this broker.")
REASSIGNED_IN = _TOPICS.meter(
    "ReassignmentBytesInPerSec", "bytes", "Bytes that this broker appends as a new replica of a reassignment."
)
REASSIGNED_OUT = _TOPICS.meter(
    "ReassignmentBytesOutPerSec", "bytes", "Bytes that the new replicas of reassignments fetch from this broker."
)

METRICS = (*_MANAGER.described, *_TOPICS.described)


class ReplicationMeters:
    def __init__(self, registry: MetricRegistry) -> None:
        self._registry = registry
        self.failed_isr_updates = registry.meter(FAILED_ISR_UPDATES.named())
        self.bytes_in = registry.meter(REPLICATED_IN.named())
        self.bytes_out = registry.meter(REPLICATED_OUT.named())
        self.reassigned_in = registry.meter(REASSIGNED_IN.named())
        self.reassigned_out = registry.meter(REASSIGNED_OUT.named())
        self._expands = registry.meter(ISR_EXPANDS.named())
        self._shrinks = registry.meter(ISR_SHRINKS.named())

    def close(self) -> None:
        """Remove the meters from the registry."""
        for metric in METRICS:
            self._registry.remove(metric.named())

    def note_isr(self, growth: int) -> None:
        """Count a committed change of in-sync replicas; ``growth`` is negative if they shrank."""
        if growth > 0:
            self._expands.mark()
        elif growth < 0:
            self._shrinks.mark()
