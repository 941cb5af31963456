"""The transaction coordinator of a broker, put together from the broker's parts.

Called by: Broker, when metadata and replicas are there and before partitions have leaders. Thread rule: the loop's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.server.groups.routing import partition_of
from tidelog.server.topic_name import TRANSACTION_STATE_TOPIC
from tidelog.server.topics.internal_topics import partition_count
from tidelog.server.transactions.completions import Completions
from tidelog.server.transactions.coordinator import CoordinatorParts, TransactionCoordinator
from tidelog.server.transactions.markers import LocalMarkers, TransactionCompleted
from tidelog.server.transactions.owned_partitions import OwnedPartitions
from tidelog.server.transactions.producer_ids import ProducerIds
from tidelog.server.transactions.settings import TransactionSettings
from tidelog.server.transactions.state_log import ReplicatedStateLog

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_FEATURE = "transaction.version"
_VERIFICATION = "transaction.partition.verification.enable"


def assemble_coordinator(broker: Broker, transaction_completed: TransactionCompleted) -> TransactionCoordinator:
    """Not started. ``transaction_completed``: told of markers in ``__consumer_offsets``."""
    settings = TransactionSettings.of(broker.config)
    metadata, replicas, timers = broker.metadata, broker.replicas, broker.timers

    def state_partition_of(transactional_id: str) -> int:
        return partition_of(transactional_id, partition_count(TRANSACTION_STATE_TOPIC, metadata.image, broker.config))

    markers = LocalMarkers(
        replicas, timers=timers, timeout_ms=settings.append_timeout_ms, transaction_completed=transaction_completed
    )
    partitions = OwnedPartitions(
        ReplicatedStateLog(replicas, timers=timers, in_thread=broker.in_thread, settings=settings),
        partition_of=state_partition_of,
        server_version=lambda: metadata.image.features.get(_FEATURE, 0),
        spawn=broker.spawn,
    )
    completions = Completions(
        partitions,
        markers,
        exists=lambda name: metadata.image.partition(name) is not None,
        timers=timers,
        spawn=broker.spawn,
    )
    parts = CoordinatorParts(
        partitions=partitions,
        completions=completions,
        markers=markers,
        producer_ids=ProducerIds(metadata.allocate_producer_ids, broker.spawn),
        replicas=replicas,
        is_verification_enabled=lambda: broker.config.flag(_VERIFICATION),
        settings=settings,
        timers=timers,
        spawn=broker.spawn,
    )
    return TransactionCoordinator(parts)
