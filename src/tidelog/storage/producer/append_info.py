"""One producer's part of an append: checks the batches one after the other and gathers what they change.

Begins with the producer's entry as it is, leaves it untouched; ``ProducerState.update`` takes the result over once the
append is sure. Errors: InvalidProducerEpochError, OutOfOrderSequenceError, InvalidTransactionStateError,
TransactionCoordinatorFencedError, each with the offset.
Called by: the log's append, under the partition's lock. Source: Kafka's ``ProducerAppendInfo`` (KIP-98, KIP-360).
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model import (
    InvalidProducerEpochError,
    LogOffsetMetadata,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from tidelog.storage.producer.append_origin import AppendOrigin
from tidelog.storage.producer.entry import NO_PRODUCER_EPOCH, ProducerBatch, ProducerEntry
from tidelog.storage.producer.marker import MarkerRecord

_MAX_SEQUENCE = 2**31 - 1


class CompletedTransaction(NamedTuple):
    """A transaction with data in this log that a marker at ``last_offset`` ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerAppendInfo:
    def __init__(self, current: ProducerEntry, origin: AppendOrigin) -> None:
        self._current = current
        self._origin = origin
        self.updated = current.without_batches()
        """The producer after this append; ``batches`` only those of it."""
        self.started: list[LogOffsetMetadata] = []
        """First offsets of the transactions that this append begins."""

    @property
    def producer_id(self) -> int:
        return self._current.producer_id

    def append_data(self, batch: ProducerBatch, first_offset: LogOffsetMetadata | None = None) -> None:
        """A data batch; ``first_offset`` where its position is known."""
        self._check_epoch(batch.producer_epoch, batch.base_offset)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(batch)
        if self.updated.add_batch(batch):
            self.started.append(first_offset or LogOffsetMetadata(batch.base_offset))

    def append_marker(self, batch: ProducerBatch, record: MarkerRecord | None) -> CompletedTransaction | None:
        """A control batch; ``record`` is None where compaction emptied it. None for a transaction without data here."""
        if record is None:
            return None
        marker = record.marker
        self._check_epoch(batch.producer_epoch, batch.base_offset)
        if marker.coordinator_epoch < self.updated.coordinator_epoch and self._origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFencedError(
                f"marker of coordinator epoch {marker.coordinator_epoch} for producer {self.producer_id}, the log has"
                f" one of epoch {self.updated.coordinator_epoch}",
                offset=batch.base_offset,
            )
        first_offset = self.updated.end_transaction(
            producer_epoch=batch.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=record.timestamp,
        )
        if first_offset is None:
            return None
        return CompletedTransaction(self.producer_id, first_offset, batch.base_offset, not marker.committed)

    def _check_epoch(self, producer_epoch: int, offset: int) -> None:
        if producer_epoch < self.updated.producer_epoch and self._origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpochError(
                f"producer {self.producer_id} has epoch {producer_epoch}, the log knows it at epoch"
                f" {self.updated.producer_epoch}",
                offset=offset,
            )

    def _check_sequence(self, batch: ProducerBatch) -> None:
        """Which first sequence may come next.

        ======================================  ==========================================
        the producer's epoch so far             allowed
        ======================================  ==========================================
        none known, in the log or this append   any (its batches may have been deleted)
        another than the batch's                0
        the batch's                             the one after the last (2^31 - 1, then 0)
        the batch's, unknown before the append  any
        ======================================  ==========================================
        """
        known, updated = self._current, self.updated
        if batch.producer_epoch != updated.producer_epoch:
            if updated.producer_epoch == NO_PRODUCER_EPOCH:
                return
            expected = 0
        elif known.producer_epoch == NO_PRODUCER_EPOCH:
            return
        else:
            same_epoch = batch.producer_epoch == known.producer_epoch
            last = known.last_sequence if same_epoch and not updated.batches else updated.last_sequence
            expected = 0 if last == _MAX_SEQUENCE else last + 1
        if batch.base_sequence != expected:
            raise OutOfOrderSequenceError(
                f"producer {self.producer_id} of epoch {batch.producer_epoch} sends sequence {batch.base_sequence},"
                f" {expected} was expected",
                offset=batch.base_offset,
            )
