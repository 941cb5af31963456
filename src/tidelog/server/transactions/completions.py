"""What follows a decision: markers in all partitions of the transaction, then its completion in the state log.

One task a prepared transaction, until it is complete or the partition that it belongs to is lost; what is prepared in a
log that is loaded is gone on with, so a crash between the decision and the completion costs nothing but time (markers
may then be written twice, which changes nothing). Answers of the partitions:

==============================================================  =====================================================
answer                                                          what is done
==============================================================  =====================================================
NONE                                                            the partition is finished with
UNKNOWN_TOPIC_OR_PARTITION, where the cluster does not have it  so it is: it was deleted
UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_VERSION             so it is: nothing can have been written to it
INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED          the whole transaction is let be: somebody else went on
another                                                         tried again
==============================================================  =====================================================

Called by: TransactionCoordinator. Thread rule: the loop's.
Source: Kafka's ``TransactionMarkerChannelManager``, ``TransactionMarkerRequestCompletionHandler``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal.transaction_state import TransactionState
from tidelog.server.timers import Timers
from tidelog.server.transactions.markers import Marker, MarkerWriter
from tidelog.server.transactions.owned_partitions import OwnedPartition, OwnedPartitions
from tidelog.server.transactions.pause import pause
from tidelog.server.transactions.rules.transaction import Transaction
from tidelog.server.transactions.rules.transitions import complete
from tidelog.server.work import Spawn

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
        exists: Callable[[TopicPartition], bool],
        timers: Timers,
        spawn: Spawn,
    ) -> None:
        """``exists``: whether the cluster has a partition."""
        self._partitions = partitions
        self._markers = markers
        self._exists = exists
        self._timers = timers
        self._spawn = spawn
        self.waiting_markers = 0
        """That found no leader of their partition."""
        self.waiting_completions = 0
        """Of transactions whose end could not be written yet."""

    def go_on(self, partition: OwnedPartition) -> None:
        """Complete what its log left prepared."""
        for transaction in tuple(partition.transactions.values()):
            if transaction.record.is_prepared:
                self.start(partition, transaction)

    def start(self, partition: OwnedPartition, transaction: Transaction) -> None:
        """Complete a prepared transaction in the background; until then a transition is under way."""
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
            left = len(transaction.record.partitions)
            if left:
                self.waiting_markers += left
                try:
                    await pause(self._timers, RETRY_MS)
                finally:
                    self.waiting_markers -= left
        while not partition.is_lost and not await self._write_completion(partition, transaction):
            self.waiting_completions += 1
            try:
                await pause(self._timers, RETRY_MS)
            finally:
                self.waiting_completions -= 1

    async def _write_markers(self, partition: OwnedPartition, transaction: Transaction, marker: Marker) -> bool:
        """One round; False where the transaction is no longer this broker's to end."""
        answers = await self._markers.write(marker, sorted(transaction.record.partitions))
        if partition.is_lost:
            return False
        fenced = {name: error for name, error in answers.items() if error in _FENCED}
        if fenced:
            _log.warning("The markers of %s are given up: %s", transaction.transactional_id, fenced)
            return False
        for name, error in answers.items():
            if self._is_finished(name, error):
                transaction.marker_written(name)
            else:
                _log.info("The marker of %s in %s has to wait: %s", transaction.transactional_id, name, error.name)
        return True

    async def _write_completion(self, partition: OwnedPartition, transaction: Transaction) -> bool:
        """Whether it is in the log."""
        try:
            await self._partitions.write_pending(partition, transaction)
        except ApiError as error:
            _log.info("%s is not yet complete: %s", transaction.transactional_id, error)
            return False
        return True

    def _is_finished(self, name: TopicPartition, error: ErrorCode) -> bool:
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return not self._exists(name)
        return error in _FINISHED
