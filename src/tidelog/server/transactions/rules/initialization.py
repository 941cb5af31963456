"""InitProducerId: a producer starts or comes back, and earlier producers of the id are fenced.

The first matching row counts. *Named* are the producer id and epoch that the client believes to have (KIP-360). A *used
up* epoch is the last one of its producer id.

======================================  ==================================================  ============================
the transaction                         named                                               effect
======================================  ==================================================  ============================
has a pending transition                anything                                            CONCURRENT_TRANSACTIONS
has an epoch                            an id that is neither the current one nor the       PRODUCER_FENCED
                                        previous one with a used-up epoch
PrepareCommit, PrepareAbort             anything                                            CONCURRENT_TRANSACTIONS
Ongoing                                 anything                                            ``None``: abort it first
Empty or Complete…, epoch used up       nothing, or the current epoch                       a new producer id, epoch 0
Empty or Complete…                      nothing                                             the next epoch
Empty or Complete…                      the current epoch, or there is none yet             the next epoch
Empty or Complete…                      the last epoch                                      unchanged: a retry
Empty or Complete…                      any other epoch                                     PRODUCER_FENCED
======================================  ==================================================  ============================

Kafka returns UNKNOWN_SERVER_ERROR for the last two rows if the epoch is used up. Pure; see ``transaction``.
Source: Kafka's ``TransactionCoordinator.prepareInitProducerIdTransit``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.transaction_record import (
    LAST_EPOCH,
    NO_EPOCH,
    ProducerIdAndEpoch,
    TransactionRecord,
    TransactionState,
)
from tidelog.server.transactions.rules.transaction import Transaction
from tidelog.server.transactions.rules.transitions import raise_epoch, repeat, rotate


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialization:
    timeout_ms: int
    named: ProducerIdAndEpoch | None = None


def initialize(
    transaction: Transaction, request: Initialization, *, now_ms: int, new_producer_id: Callable[[], int]
) -> TransactionRecord | None:
    """Return the record to write, None if the open transaction must be aborted first. Raise ApiError by the table."""
    record, named = transaction.record, request.named
    if transaction.pending is not None:
        raise _wait(transaction)
    if named is not None and not _could_be_current(record, named):
        raise _fenced(transaction, named)
    if record.is_prepared:
        raise _wait(transaction)
    if record.state is TransactionState.ONGOING:
        return None
    is_current = named is None or record.producer_epoch in (NO_EPOCH, named.producer_epoch)
    if is_current and record.is_epoch_exhausted:
        return rotate(
            record, new_producer_id(), remember=named is not None, timeout_ms=request.timeout_ms, now_ms=now_ms
        )
    if is_current:
        return raise_epoch(record, remember=named is not None, timeout_ms=request.timeout_ms, now_ms=now_ms)
    if named is not None and named.producer_epoch != record.last_producer_epoch:
        raise _fenced(transaction, named)
    return repeat(record, timeout_ms=request.timeout_ms, now_ms=now_ms)


def _could_be_current(record: TransactionRecord, named: ProducerIdAndEpoch) -> bool:
    """Return True if the named producer can be this one. Its epoch is checked later."""
    return (
        record.producer_epoch == NO_EPOCH
        or named.producer_id == record.producer_id
        or (named.producer_id == record.previous_producer_id and named.producer_epoch >= LAST_EPOCH)
    )


def _wait(transaction: Transaction) -> ApiError:
    return ApiError(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        f"a transition of transactional id {transaction.transactional_id!r} is pending",
    )


def _fenced(transaction: Transaction, named: ProducerIdAndEpoch) -> ApiError:
    return ApiError(
        ErrorCode.PRODUCER_FENCED,
        f"transactional id {transaction.transactional_id!r} belongs to {transaction.record.producer}, not to {named}",
    )
