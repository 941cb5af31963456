"""Transaction markers: the control batches that end a transaction in each of its partitions.

``MarkerWriter`` is what the coordinator writes through: each partition's marker goes to the partition's leader, and
each answers for itself. Here all leaders are this broker, ``LocalMarkers``, which also serves WriteTxnMarkers of other
brokers; a partition whose leader is another broker, or none for the moment, is answered NOT_LEADER_OR_FOLLOWER, and
asked again.

A marker in ``__consumer_offsets`` ends pending offset commits as well: the group coordinator is told before it is
appended and once it is written.
Called by: Completions, WriteTxnMarkers. Thread rule: the loop's.
Source: Kafka's ``TransactionMarkerChannelManager``, ``KafkaApis.handleWriteTxnMarkersRequest`` (KIP-98).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ErrorCode, error_code_of
from tidelog.record.build import build_end_transaction_batch
from tidelog.record.control import EndTransactionMarker
from tidelog.server.replicas.replica_manager import ReplicaManager
from tidelog.server.timers import Timers
from tidelog.server.topic_name import GROUP_METADATA_TOPIC
from tidelog.server.work import in_pieces
from tidelog.storage.producer import AppendOrigin

_AT_ONCE: Final = 100
"""Markers, until the loop sees to everybody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The same for all partitions of one transaction."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int = 0
    """``transaction.version`` of the client that ended it."""


class MarkerWriter(Protocol):
    def write(
        self, marker: Marker, partitions: Collection[TopicPartition]
    ) -> Coroutine[Any, Any, Mapping[TopicPartition, ErrorCode]]:
        """How it went for each; UNKNOWN_TOPIC_OR_PARTITION: it is deleted. Never fails as a whole."""
        ...


MarkerComes = Callable[[int], None]
"""Told the number of a partition of ``__consumer_offsets`` before a marker is appended to it."""
TransactionCompleted = Callable[[int, int, bool], None]
"""Told the number of a partition of ``__consumer_offsets``, the producer id, and whether it was a commit."""


class LocalMarkers:
    """The MarkerWriter over this broker's replicas."""

    def __init__(
        self,
        replicas: ReplicaManager,
        *,
        timers: Timers,
        timeout_ms: int,
        marker_comes: MarkerComes,
        transaction_completed: TransactionCompleted,
    ) -> None:
        self._replicas = replicas
        self._timers = timers
        self._timeout_ms = timeout_ms
        self._marker_comes = marker_comes
        self._transaction_completed = transaction_completed

    async def write(self, marker: Marker, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ErrorCode]:
        """One for each partition, however often it is named. All are appended before the first is waited for."""
        ends: dict[TopicPartition, int] = {}
        errors = dict.fromkeys(partitions, ErrorCode.NONE)
        async for partition in in_pieces(list(errors), _AT_ONCE):
            try:
                ends[partition] = self._append(marker, partition)
            except TidelogError as error:
                errors[partition] = error_code_of(error)
        async for partition, end in in_pieces(ends.items(), _AT_ONCE):
            try:
                await self._replicas.partition(partition).replicated(end, self._timeout_ms)
                if partition.topic == GROUP_METADATA_TOPIC:
                    self._transaction_completed(partition.partition, marker.producer_id, marker.committed)
            except TidelogError as error:
                errors[partition] = error_code_of(error)
        return errors

    def _append(self, marker: Marker, partition: TopicPartition) -> int:
        """The offset behind the marker."""
        batch = build_end_transaction_batch(
            EndTransactionMarker(committed=marker.committed, coordinator_epoch=marker.coordinator_epoch),
            base_offset=0,
            timestamp=self._timers.now_ms(),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
        )
        if partition.topic == GROUP_METADATA_TOPIC:
            self._marker_comes(partition.partition)
        appended = self._replicas.partition(partition).append(
            batch, origin=AppendOrigin.COORDINATOR, transaction_version=marker.transaction_version
        )
        return appended.last_offset + 1
