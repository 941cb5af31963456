"""A producer's part of an append: it checks the batches one by one and collects their changes.

It starts from the producer's entry and leaves that unchanged. ``ProducerState.update`` applies the result once all
checks have passed. Raises InvalidProducerEpochError, OutOfOrderSequenceError, InvalidTransactionStateError or
TransactionCoordinatorFencedError, each with the offset.
Thread rule: the caller holds the partition's lock. Source: Kafka's ``ProducerAppendInfo`` (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from tidelog.kernel import next_sequence
from tidelog.model import (
    InvalidProducerEpochError,
    LogOffsetMetadata,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from tidelog.storage.producer.entry import NO_PRODUCER_EPOCH, ProducerBatch, ProducerEntry
from tidelog.storage.producer.marker import MarkerRecord
from tidelog.storage.producer.verification import PendingVerification

MAX_PRODUCER_EPOCH: Final = 2**15 - 1
_RISING_EPOCHS: Final = 2
"""The ``transaction.version`` from which the end of a transaction raises its producer's epoch (KIP-890)."""


class CompletedTransaction(NamedTuple):
    """A transaction with data in this log that a marker at ``last_offset`` ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerAppendInfo:
    def __init__(
        self, current: ProducerEntry, origin: AppendOrigin, pending: PendingVerification | None = None
    ) -> None:
        self._current = current
        self._origin = origin
        self._pending = pending
        self.updated = current.without_batches()
        """The producer after this append; ``batches`` are only the append's."""
        self.started: list[LogOffsetMetadata] = []
        """First offsets of the transactions that this append begins."""
        self.ends_verification = False
        """True if this append ends the producer's pending verification."""

    @property
    def producer_id(self) -> int:
        return self._current.producer_id

    def append_data(self, batch: ProducerBatch, first_offset: LogOffsetMetadata | None = None) -> None:
        """Check and add a data batch; ``first_offset`` gives its position if that is known."""
        self._check_epoch(batch.producer_epoch, batch.base_offset)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(batch)
        self._note_verification(batch)
        if self.updated.add_batch(batch):
            self.started.append(first_offset or LogOffsetMetadata(batch.base_offset))

    def append_marker(
        self, batch: ProducerBatch, record: MarkerRecord | None, transaction_version: int = 0
    ) -> CompletedTransaction | None:
        """Check and add a control batch; ``record`` is None if compaction emptied it.

        Return the ended transaction, or None if it has no data in this log.
        """
        if record is None:
            self._note_verification(batch)
            return None
        marker = record.marker
        self._check_marker_epoch(batch, transaction_version)
        if marker.coordinator_epoch < self.updated.coordinator_epoch and self._origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFencedError(
                f"marker of coordinator epoch {marker.coordinator_epoch} for producer {self.producer_id}, the log has"
                f" one of epoch {self.updated.coordinator_epoch}",
                offset=batch.base_offset,
            )
        self._note_verification(batch)
        first_offset = self.updated.end_transaction(
            producer_epoch=batch.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=record.timestamp,
        )
        if first_offset is None:
            return None
        return CompletedTransaction(self.producer_id, first_offset, batch.base_offset, not marker.committed)

    def _note_verification(self, batch: ProducerBatch) -> None:
        if self._pending is not None and self._pending.ends_with(batch):
            self.ends_verification = True

    def _check_marker_epoch(self, batch: ProducerBatch, transaction_version: int) -> None:
        """Check the epoch. In version 2 it is above the data's; a repeated marker has the same (KIP-1228)."""
        known = self.updated
        comes_again = known.transaction_first_offset is None or batch.producer_epoch == MAX_PRODUCER_EPOCH
        rises = transaction_version >= _RISING_EPOCHS
        if not (rises and batch.producer_epoch == known.producer_epoch and not comes_again):
            self._check_epoch(batch.producer_epoch, batch.base_offset)
        elif self._origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpochError(
                f"a marker has epoch {batch.producer_epoch} of producer {self.producer_id}, as the data of its"
                f" transaction; from transaction.version 2 on it is higher",
                offset=batch.base_offset,
            )

    def _check_epoch(self, producer_epoch: int, offset: int) -> None:
        if producer_epoch < self.updated.producer_epoch and self._origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpochError(
                f"producer {self.producer_id} has epoch {producer_epoch}, the log knows it at epoch"
                f" {self.updated.producer_epoch}",
                offset=offset,
            )

    def _check_sequence(self, batch: ProducerBatch) -> None:
        """Check that the batch's first sequence may come next.

        ======================================  ==========================================
        the producer's epoch so far             allowed
        ======================================  ==========================================
        unknown in the log and in this append   any (its batches may have been deleted)
        not the batch's epoch                   0
        the batch's epoch                       the last sequence + 1 (2^31 - 1, then 0)
        the batch's, unknown before the append  any
        ======================================  ==========================================

        While a verification is pending, its lowest sequence is the limit. In version 2, only 0 is allowed if
        no batch of the producer is remembered.
        """
        known, updated, pending = self._current, self.updated, self._pending
        if pending is not None:
            if pending.supports_epoch_bump and not known.batches and batch.base_sequence != 0:
                raise self._out_of_order(batch, "0")
            if batch.base_sequence > pending.lowest_sequence:
                raise self._out_of_order(batch, f"{pending.lowest_sequence} at most")
        if batch.producer_epoch != updated.producer_epoch:
            if updated.producer_epoch == NO_PRODUCER_EPOCH:
                return
            expected = 0
        elif known.producer_epoch == NO_PRODUCER_EPOCH:
            return
        else:
            same_epoch = batch.producer_epoch == known.producer_epoch
            last = known.last_sequence if same_epoch and not updated.batches else updated.last_sequence
            expected = next_sequence(last)
        if batch.base_sequence != expected:
            raise self._out_of_order(batch, str(expected))

    def _out_of_order(self, batch: ProducerBatch, expected: str) -> OutOfOrderSequenceError:
        return OutOfOrderSequenceError(
            f"producer {self.producer_id} of epoch {batch.producer_epoch} sends sequence {batch.base_sequence},"
            f" {expected} was expected",
            offset=batch.base_offset,
        )


class AppendOrigin(enum.Enum):
    """
    ============  =====================  ===============  ==================
    origin        sequence               producer epoch   coordinator epoch
    ============  =====================  ===============  ==================
    CLIENT        checked                checked          checked
    COORDINATOR   not (it has none)      checked          checked
    REPLICATION   not (leader did it)    not              not
    RAFT_LEADER   not                    checked          checked
    ============  =====================  ===============  ==================

    Recovery replays a log as REPLICATION.
    """

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT_LEADER = "raft_leader"
