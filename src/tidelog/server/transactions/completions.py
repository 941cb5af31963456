"""The completion of decided transactions: markers in all partitions, then the final state record.

Each prepared transaction has one task, until it is complete or its state partition is lost. After a load, prepared
transactions are continued, so a crash between decision and completion costs only time. Markers may then be written
twice, which has no effect. Responses of the partitions:

==============================================================  =====================================================
response                                                        effect
==============================================================  =====================================================
NONE                                                            the partition is finished
UNKNOWN_TOPIC_OR_PARTITION, and not in the cluster metadata     the partition is finished: it was deleted
UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_VERSION             the partition is finished: it cannot have data of it
INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED          the transaction is abandoned: it has a newer owner
any other                                                       retried
==============================================================  =====================================================

Thread rule: the event loop only.
Source: Kafka's ``TransactionMarkerChannelManager``, ``TransactionMarkerRequestCompletionHandler``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.transaction_record import TransactionState
from tidelog.runtime.executor import Spawn
from tidelog.runtime.timers import Timers, pause
from tidelog.server.metadata.partition_state import NO_LEADER
from tidelog.server.transactions.markers import Marker, MarkerWriter
from tidelog.server.transactions.owned_partitions import OwnedPartition, OwnedPartitions
from tidelog.server.transactions.rules.transaction import Transaction
from tidelog.server.transactions.rules.transitions import complete

_log = logging.getLogger(__name__)

RETRY_MS: Final = 100
_FINISHED: Final = frozenset({ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class Completions:
    def __init__(
        self,
        partitions: OwnedPartitions,
        markers: MarkerWriter,
        *,
        leader_of: Callable[[TopicPartition], int | None],
        timers: Timers,
        spawn: Spawn,
    ) -> None:
        """``leader_of`` returns a partition's leader: NO_LEADER if it has none, None if it does not exist."""
        self._partitions = partitions
        self._markers = markers
        self._leader_of = leader_of
        self._timers = timers
        self._spawn = spawn
        self.waiting_for_leaders = 0
        """The number of transactions whose next marker waits until its partition has a leader."""
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
        self._spawn(self._complete(partition, transaction))

    async def _complete(self, partition: OwnedPartition, transaction: Transaction) -> None:
        marker = Marker(
            producer_id=transaction.record.producer_id,
            producer_epoch=transaction.record.producer_epoch,
            committed=transaction.record.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=partition.epoch,
            transaction_version=transaction.record.client_version,
        )
        while not partition.is_lost and transaction.record.partitions:
            if not await self._write_markers(partition, transaction, marker):
                return
            if transaction.record.partitions:
                lacks_leader = any(self._leader_of(name) == NO_LEADER for name in transaction.record.partitions)
                self.waiting_for_leaders += lacks_leader
                try:
                    await pause(self._timers, RETRY_MS)
                finally:
                    self.waiting_for_leaders -= lacks_leader
        while not partition.is_lost and not await self._write_completion(partition, transaction):
            self.waiting_completions += 1
            try:
                await pause(self._timers, RETRY_MS)
            finally:
                self.waiting_completions -= 1

    async def _write_markers(self, partition: OwnedPartition, transaction: Transaction, marker: Marker) -> bool:
        """Write one round of markers. Return False if this broker must no longer end the transaction."""
        errors = await self._markers.write(marker, sorted(transaction.record.partitions))
        if partition.is_lost:
            return False
        fenced = {name: error for name, error in errors.items() if error in _FENCED}
        if fenced:
            _log.warning(
                "Abandoned the markers of %s, because it has a newer owner: %s",
                transaction.transactional_id,
                fenced,
            )
            return False
        for name, error in errors.items():
            if self._is_finished(name, error):
                transaction.marker_written(name)
            else:
                _log.info("The marker of %s in %s will be retried: %s", transaction.transactional_id, name, error.name)
        return True

    async def _write_completion(self, partition: OwnedPartition, transaction: Transaction) -> bool:
        """Write the final record. Return False if that failed."""
        try:
            await self._partitions.write_pending(partition, transaction)
        except ApiError as error:
            _log.info("%s is not yet complete: %s", transaction.transactional_id, error)
            return False
        return True

    def _is_finished(self, name: TopicPartition, error: ErrorCode) -> bool:
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return self._leader_of(name) is None
        return error in _FINISHED
