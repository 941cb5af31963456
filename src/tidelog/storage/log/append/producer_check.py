"""The check of an append's producers before anything is written. Pure: it only reads the state.

===========================================  ========================================================================
a batch with a producer id                   what happens
===========================================  ========================================================================
from a client, with the sequences of one of  the complete append is a duplicate: the result has the original's
the producer's last five batches             offsets, nothing is written
from a client or coordinator, with data      it needs a verification guard, if the log requires one
that begins a transaction here
else                                         epoch, sequence and transaction are checked, depending on the origin
===========================================  ========================================================================

Thread rule: the caller holds the partition's lock.
Source: Kafka's ``UnifiedLog.analyzeAndValidateProducerState``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.model import InvalidProducerEpochError, InvalidTransactionStateError, LogOffsetMetadata
from tidelog.record.attributes import TRANSACTIONAL_FLAG
from tidelog.storage.log.state.log_state import LogState
from tidelog.storage.producer import (
    NO_GUARD,
    AppendOrigin,
    CachedBatch,
    CompletedTransaction,
    EndedTransaction,
    ProducerAppendInfo,
    ProducerState,
    VerificationGuard,
    read_marker,
)
from tidelog.storage.producer.replay_rows import ReplayBatch

_CLIENTS = (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR)


class Appender(NamedTuple):
    """The origin of an append, and the verification guard that came with it."""

    origin: AppendOrigin
    guard: VerificationGuard = NO_GUARD
    transaction_version: int = 0
    """The ``transaction.version`` of the transactions that the append's markers end."""


@dataclass(slots=True)
class ProducerChanges:
    """The changes to make after the append is written. There are none if ``duplicate`` is set."""

    producers: dict[int, ProducerAppendInfo] = field(default_factory=dict)
    completed: list[CompletedTransaction] = field(default_factory=list)
    duplicate: CachedBatch | None = None

    def apply(self, state: ProducerState) -> list[EndedTransaction]:
        """Change the state. Return the ended transactions, each with the last stable offset after it."""
        for info in self.producers.values():
            state.update(info)
        return [EndedTransaction(transaction, state.complete(transaction)) for transaction in self.completed]


NO_CHANGES = ProducerChanges()


def check_producers(
    log: LogState, data: memoryview, batches: Iterable[ReplayBatch], appender: Appender, place: LogOffsetMetadata
) -> ProducerChanges:
    """Check the batches that have a producer id. ``place`` is the position for the first byte of ``data``.

    Raise OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTransactionStateError or
    TransactionCoordinatorFencedError, with the offset.
    """
    state, origin = log.producers.state, appender.origin
    changes = ProducerChanges()
    for batch in batches:
        if origin is AppendOrigin.CLIENT:
            known = state.producers.get(batch.producer_id)
            changes.duplicate = None if known is None else known.find_duplicate(batch)
            if changes.duplicate is not None:
                return changes
        if log.verifies_transactions and origin in _CLIENTS:
            _require_verified(state, batch, appender.guard)
        info = changes.producers.get(batch.producer_id)
        if info is None:
            info = changes.producers[batch.producer_id] = state.prepare_update(batch.producer_id, origin)
        if batch.is_control:
            marker = read_marker(data[batch.position : batch.position + batch.size])
            completed = info.append_marker(batch, marker, appender.transaction_version)
            if completed is not None:
                changes.completed.append(completed)
        else:
            position = place.position_in_segment + batch.position
            info.append_data(batch, LogOffsetMetadata(batch.base_offset, place.segment_base_offset, position))
    return changes


def _require_verified(state: ProducerState, batch: ReplayBatch, guard: VerificationGuard) -> None:
    """Raise InvalidTransactionStateError for unverified data, or InvalidProducerEpochError if its epoch is old."""
    data_of_transaction = batch.attributes & TRANSACTIONAL_FLAG and not batch.is_control
    if data_of_transaction and not state.is_verified(batch, guard):
        known = state.producers.get(batch.producer_id)
        if known is not None and batch.producer_epoch < known.producer_epoch:
            raise InvalidProducerEpochError(
                f"producer {batch.producer_id} has epoch {batch.producer_epoch}, but in the log it has epoch"
                f" {known.producer_epoch}",
                offset=batch.base_offset,
            )
        raise InvalidTransactionStateError(
            f"producer {batch.producer_id} has no open transaction in this partition, and its coordinator has not"
            " confirmed one",
            offset=batch.base_offset,
        )
