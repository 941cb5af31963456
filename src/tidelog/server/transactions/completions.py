"""The completion of decided transactions: markers in all partitions, then the final state record.

Each prepared transaction has one delivery for each leader of its partitions, until it is complete or its state
partition is lost. A failed delivery looks up the leaders again, and splits if they differ now. The last delivery writes
the final record. After a load, prepared transactions are continued, so a crash between decision and completion costs
only time. Markers may then be written twice, which has no effect. The leader's response decides:

==============================================================  =====================================================
response                                                        effect
==============================================================  =====================================================
NONE                                                            the partition is finished
UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_VERSION             the partition is finished: it cannot have data of it
INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED          the transaction is abandoned: it has a newer owner
UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,             retried after a pause
NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND,
REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR, NETWORK_EXCEPTION
any other                                                       logged as an error, and retried after a pause
==============================================================  =====================================================

A partition that is no longer in the cluster metadata is finished: it was deleted. A partition without a leader waits.
Kafka 4.4 ends its process after an unexpected response. It also leaves out partitions without a leader, whose
transaction then stays open for read_committed.

Thread rule: the event loop only.
Source: Kafka's ``TransactionMarkerChannelManager``, ``TransactionMarkerRequestCompletionHandler``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.transaction_record import TransactionState
from tidelog.runtime.executor import Spawn
from tidelog.runtime.timers import Timers, pause
from tidelog.server.metadata.partition_state import NO_LEADER
from tidelog.server.transactions.marker_channels import MarkerChannels
from tidelog.server.transactions.markers import Marker, MarkerWriter
from tidelog.server.transactions.owned_partitions import OwnedPartition, OwnedPartitions
from tidelog.server.transactions.rules.transaction import Transaction
from tidelog.server.transactions.rules.transitions import complete

_log = logging.getLogger(__name__)

RETRY_MS: Final = 100
_FINISHED: Final = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_RETRIED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


@dataclass(slots=True, kw_only=True, eq=False)
class _Completion:
    """A prepared transaction on its way to its final record."""

    partition: OwnedPartition
    transaction: Transaction
    marker: Marker
    is_abandoned: bool = False
    reported: set[tuple[TopicPartition, ErrorCode]] = field(default_factory=set)
    """The failures that are in the log of this process already."""

    @property
    def is_over(self) -> bool:
        """True if this broker must no longer end the transaction."""
        return self.is_abandoned or self.partition.is_lost


class Completions:
    def __init__(
        self,
        partitions: OwnedPartitions,
        *,
        node_id: int,
        local: MarkerWriter,
        channels: MarkerChannels,
        leader_of: Callable[[TopicPartition], int | None],
        timers: Timers,
        spawn: Spawn,
    ) -> None:
        """``local`` writes to the partitions that this broker, ``node_id``, leads, and ``channels`` to all others.
        ``leader_of`` returns a partition's leader: NO_LEADER if it has none, None if it does not exist."""
        self._partitions = partitions
        self._node_id = node_id
        self._local = local
        self._channels = channels
        self._leader_of = leader_of
        self._timers = timers
        self._spawn = spawn
        self.waiting_for_leaders = 0
        """The number of deliveries that wait until their partitions have a leader."""
        self.waiting_completions = 0
        """The number of transactions whose final record could not be written yet."""

    def resume_prepared(self, partition: OwnedPartition) -> None:
        """Complete the prepared transactions of a loaded partition."""
        for transaction in tuple(partition.transactions.values()):
            if transaction.record.is_prepared:
                self.start(partition, transaction)

    def start(self, partition: OwnedPartition, transaction: Transaction) -> None:
        """Complete a prepared transaction in the background. Its transition stays pending until then."""
        transaction.begin(complete(transaction.record, now_ms=self._timers.now_ms()))
        marker = Marker(
            producer_id=transaction.record.producer_id,
            producer_epoch=transaction.record.producer_epoch,
            committed=transaction.record.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=partition.epoch,
            transaction_version=transaction.record.client_version,
        )
        completion = _Completion(partition=partition, transaction=transaction, marker=marker)
        self._spawn(self._deliver(completion, sorted(transaction.record.partitions)))

    def cancel(self, partition: OwnedPartition) -> None:
        """Drop the markers of a lost state partition that are not on their way yet."""
        self._channels.cancel(partition)

    # --- markers ---

    async def _deliver(self, completion: _Completion, partitions: Sequence[TopicPartition]) -> None:
        """Write the marker to all of ``partitions``, and the final record if these were the last ones."""
        while not completion.is_over:
            leader, partitions = self._split(completion, partitions)
            if partitions and leader != NO_LEADER:
                errors = await self._write(completion, leader, partitions)
                partitions = self._settle(completion, errors)
            if not partitions:
                break
            await self._pause(is_without_leader=leader == NO_LEADER)
        if not completion.is_over and not completion.transaction.record.partitions:
            await self._write_completion(completion.partition, completion.transaction)

    def _split(
        self, completion: _Completion, partitions: Iterable[TopicPartition]
    ) -> tuple[int, Sequence[TopicPartition]]:
        """Return a leader and its part of ``partitions``. Start a delivery of its own for each other leader."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for name in partitions:
            leader = self._leader_of(name)
            if leader is None:
                completion.transaction.marker_written(name)
            else:
                by_leader.setdefault(leader, []).append(name)
        if not by_leader:
            return NO_LEADER, ()
        leader, own = by_leader.popitem()
        for others in by_leader.values():
            self._spawn(self._deliver(completion, others))
        return leader, own

    async def _write(
        self, completion: _Completion, leader: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        if leader == self._node_id:
            return await self._local.write(completion.marker, partitions)
        return await self._channels.write(leader, completion.marker, partitions, completion.partition)

    def _settle(self, completion: _Completion, errors: Mapping[TopicPartition, ErrorCode]) -> Sequence[TopicPartition]:
        """Apply the responses. Return the partitions to retry."""
        if completion.is_over:
            return ()
        transaction = completion.transaction
        fenced = {name: error.name for name, error in errors.items() if error in _FENCED}
        if fenced:
            completion.is_abandoned = True
            _log.warning(
                "Abandoned the markers of %s, because it has a newer owner: %s", transaction.transactional_id, fenced
            )
            return ()
        retried = []
        for name, error in errors.items():
            if error in _FINISHED or (error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._leader_of(name) is None):
                transaction.marker_written(name)
            else:
                retried.append(name)
                self._report(completion, name, error)
        return retried

    def _report(self, completion: _Completion, name: TopicPartition, error: ErrorCode) -> None:
        """Log each failure of a partition once. It may last for long."""
        if (name, error) not in completion.reported:
            completion.reported.add((name, error))
            level = logging.INFO if error in _RETRIED else logging.ERROR
            transactional_id = completion.transaction.transactional_id
            _log.log(level, "The marker of %s in %s will be retried: %s", transactional_id, name, error.name)

    async def _pause(self, *, is_without_leader: bool) -> None:
        self.waiting_for_leaders += is_without_leader
        try:
            await pause(self._timers, RETRY_MS)
        finally:
            self.waiting_for_leaders -= is_without_leader

    # --- the final record ---

    async def _write_completion(self, partition: OwnedPartition, transaction: Transaction) -> None:
        """Write the final record. Repeat it until it is written or the partition is lost."""
        while not partition.is_lost:
            try:
                await self._partitions.write_pending(partition, transaction)
            except ApiError as error:
                _log.info("%s is not yet complete: %s", transaction.transactional_id, error)
            else:
                return
            self.waiting_completions += 1
            try:
                await pause(self._timers, RETRY_MS)
            finally:
                self.waiting_completions -= 1
