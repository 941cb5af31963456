"""Transaction markers: the control batches that end a transaction in each of its partitions.

``LocalMarkers`` writes to the partitions that this broker leads, for its own coordinator and for WriteTxnMarkers of
other brokers. Any other partition gets NOT_LEADER_OR_FOLLOWER, and the coordinator looks up its leader again.
``marker_channels`` sends markers to the leaders on other brokers.

A marker in ``__consumer_offsets`` also ends pending offset commits. The group coordinator is notified before the marker
is appended and after it is replicated. Thread rule: the event loop only.
Source: Kafka's ``TransactionMarkerChannelManager``, ``KafkaApis.handleWriteTxnMarkersRequest`` (KIP-98).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC
from tidelog.protocol.errors import ErrorCode, error_code_of
from tidelog.record.build import build_end_transaction_batch
from tidelog.record.control import EndTransactionMarker
from tidelog.runtime.executor import yielding_to_loop
from tidelog.runtime.timers import Timers
from tidelog.server.replicas.replica_manager import ReplicaManager
from tidelog.storage.producer import AppendOrigin

_AT_ONCE: Final = 100
"""The number of markers after which other tasks of the loop run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The marker of all partitions of one transaction."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int = 0
    """The ``transaction.version`` of the client that ended the transaction."""


class MarkerWriter(Protocol):
    def write(
        self, marker: Marker, partitions: Collection[TopicPartition]
    ) -> Coroutine[Any, Any, Mapping[TopicPartition, ErrorCode]]:
        """Return each partition's error. UNKNOWN_TOPIC_OR_PARTITION means that it is deleted. Never raise."""
        ...


BeforeMarker = Callable[[int], None]
"""A callback with the number of a partition of ``__consumer_offsets`` before a marker is appended to it."""
TransactionCompleted = Callable[[int, int, bool], None]
"""A callback with the number of a partition of ``__consumer_offsets``, the producer id, and True for a commit."""


class LocalMarkers:
    """The MarkerWriter for this broker's replicas."""

    def __init__(
        self,
        replicas: ReplicaManager,
        *,
        timers: Timers,
        timeout_ms: int,
        before_marker: BeforeMarker,
        transaction_completed: TransactionCompleted,
    ) -> None:
        self._replicas = replicas
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._before_marker = before_marker
        self._transaction_completed = transaction_completed

    async def write(self, marker: Marker, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ErrorCode]:
        """Write one marker to each distinct partition. All are appended before the first wait for replication, and all
        have the same time for it."""
        ends: dict[TopicPartition, int] = {}
        errors = dict.fromkeys(partitions, ErrorCode.NONE)
        async for partition in yielding_to_loop(list(errors), _AT_ONCE):
            try:
                ends[partition] = self._append(marker, partition)
            except TidelogError as error:
                errors[partition] = error_code_of(error)
        give_up_ms = self._timers.monotonic_ms() + self._timeout_ms
        async for partition, end in yielding_to_loop(ends.items(), _AT_ONCE):
            try:
                left_ms = max(0, give_up_ms - self._timers.monotonic_ms())
                await self._replicas.partition(partition).replicated(end, left_ms)
                if partition.topic == GROUP_METADATA_TOPIC:
                    self._transaction_completed(partition.partition, marker.producer_id, marker.committed)
            except TidelogError as error:
                errors[partition] = error_code_of(error)
        return errors

    def _append(self, marker: Marker, partition: TopicPartition) -> int:
        """Append the marker. Return the offset after it."""
        batch = build_end_transaction_batch(
            EndTransactionMarker(committed=marker.committed, coordinator_epoch=marker.coordinator_epoch),
            base_offset=0,
            timestamp=self._timers.now_ms(),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
        )
        if partition.topic == GROUP_METADATA_TOPIC:
            self._before_marker(partition.partition)
        appended = self._replicas.partition(partition).append(
            batch, origin=AppendOrigin.COORDINATOR, transaction_version=marker.transaction_version
        )
        return appended.last_offset + 1
