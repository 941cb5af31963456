"""The assembly of a broker's transaction coordinator from the broker's parts.

It needs metadata and replicas, and runs before partitions have leaders. Thread rule: the event loop only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from tidelog.model import TopicPartition
from tidelog.model.internal_topics import TRANSACTION_STATE_TOPIC
from tidelog.protocol.api_key import ApiKey
from tidelog.runtime.metrics.sampled.sampled_times import SampledTimes
from tidelog.server.topics.internal_topics import partition_count, partition_of
from tidelog.server.topics.node import Node
from tidelog.server.transactions.completions import Completions
from tidelog.server.transactions.coordinator import CoordinatorParts, TransactionCoordinator
from tidelog.server.transactions.coordinator_channels import CoordinatorLookup
from tidelog.server.transactions.marker_channels import MarkerChannels
from tidelog.server.transactions.markers import BeforeMarker, LocalMarkers, TransactionCompleted
from tidelog.server.transactions.owned_partitions import OwnedPartitions
from tidelog.server.transactions.producer_ids import ProducerIds
from tidelog.server.transactions.settings import TransactionSettings
from tidelog.server.transactions.state_log import ReplicatedStateLog

_FEATURE = "transaction.version"
_VERIFICATION = "transaction.partition.verification.enable"


def assemble_coordinator(
    node: Node, before_marker: BeforeMarker, transaction_completed: TransactionCompleted
) -> TransactionCoordinator:
    """Create the coordinator without starting it. The callbacks report markers in ``__consumer_offsets``."""
    settings = TransactionSettings.of(node.config)
    metadata, replicas, timers = node.metadata, node.replicas, node.timers

    def state_partition_of(transactional_id: str) -> int:
        return partition_of(transactional_id, partition_count(TRANSACTION_STATE_TOPIC, metadata.image, node.config))

    def leader_of(name: TopicPartition) -> int | None:
        partition = metadata.image.partition(name)
        return None if partition is None else partition.leader

    def coordinator_of(transactional_id: str) -> int | None:
        leader = leader_of(TopicPartition(TRANSACTION_STATE_TOPIC, state_partition_of(transactional_id)))
        broker = None if leader is None else metadata.image.brokers.get(leader)
        return None if broker is None or broker.is_fenced else leader

    def send(node_id: int, api: ApiKey, values: Mapping[str, Any], **options: Any) -> Awaitable[Any]:
        return node.links.send(node_id, api, values, timeout_ms=settings.append_timeout_ms, **options)

    markers = LocalMarkers(
        replicas,
        timers=timers,
        timeout_ms=settings.append_timeout_ms,
        before_marker=before_marker,
        transaction_completed=transaction_completed,
    )
    partitions = OwnedPartitions(
        ReplicatedStateLog(replicas, timers=timers, in_thread=node.in_thread, settings=settings),
        partition_of=state_partition_of,
        server_version=lambda: metadata.image.features.get(_FEATURE, 0),
        spawn=node.spawn,
        loads=SampledTimes(timers.monotonic_ms),
    )
    completions = Completions(
        partitions,
        node_id=node.node_id,
        local=markers,
        channels=MarkerChannels(send, node.spawn),
        leader_of=leader_of,
        timers=timers,
        spawn=node.spawn,
    )
    parts = CoordinatorParts(
        partitions=partitions,
        completions=completions,
        markers=markers,
        producer_ids=ProducerIds(metadata.allocate_producer_ids, node.spawn),
        replicas=replicas,
        lookup=CoordinatorLookup(node_id=node.node_id, coordinator_of=coordinator_of, send=send),
        is_verification_enabled=lambda: node.config.flag(_VERIFICATION),
        settings=settings,
        timers=timers,
        spawn=node.spawn,
    )
    return TransactionCoordinator(parts)
