"""The end of a transaction: by its producer (EndTxn), or by its coordinator with a fence.

Version 1 (EndTxn before v5) keeps the epoch, so a retry looks like the next request. The state decides:

=================  ===========================  ===========================
state              commit                       abort
=================  ===========================  ===========================
Empty              INVALID_TXN_STATE            INVALID_TXN_STATE
Ongoing            PrepareCommit                PrepareAbort
PrepareCommit      CONCURRENT_TRANSACTIONS      INVALID_TXN_STATE
PrepareAbort       INVALID_TXN_STATE            CONCURRENT_TRANSACTIONS
CompleteCommit     ``None``: a no-op            INVALID_TXN_STATE
CompleteAbort      INVALID_TXN_STATE            ``None``: a no-op
=================  ===========================  ===========================

Earlier checks: another producer id is INVALID_PRODUCER_ID_MAPPING, another epoch is PRODUCER_FENCED, and a pending
transition is CONCURRENT_TRANSACTIONS.

Version 2 (KIP-890) gives every transaction an epoch. An epoch *before* the current one (or the last of the previous
producer id, after an overflow) can only be a retry. ``-`` is PRODUCER_FENCED:

=================  ===================  ==============  ===================  ==============
state              commit, current      commit, before  abort, current       abort, before
=================  ===================  ==============  ===================  ==============
Empty              INVALID_TXN_STATE    ``-``           PrepareAbort         ``-``
Ongoing            PrepareCommit        ``-``           PrepareAbort         ``-``
PrepareCommit      ``-``                CONCURRENT_…    ``-``                INVALID_TXN_STATE
PrepareAbort       ``-``                INVALID_…       ``-``                CONCURRENT_…
CompleteCommit     INVALID_TXN_STATE    ``None``        PrepareAbort         INVALID_TXN_STATE
CompleteAbort      INVALID_TXN_STATE    INVALID_…       PrepareAbort         ``None``
=================  ===================  ==============  ===================  ==============

Earlier checks: a pending transition is CONCURRENT_TRANSACTIONS, another producer id is INVALID_PRODUCER_ID_MAPPING. If
the epochs of the producer id are used up, the response carries the next producer id. Kafka 4.1 does not do so when it
fences, so its epoch overflows. Later releases do it, like this code.

Pure; see ``transaction``.
Source: Kafka's ``TransactionCoordinator.endTransaction`` and ``endTransactionWithTV1`` (4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.transaction_record import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    TransactionRecord,
    TransactionState,
)
from tidelog.server.transactions.rules.transaction import Transaction, bumps_epoch
from tidelog.server.transactions.rules.transitions import prepare

_COMMITS = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """An EndTxn request. ``client_version`` is its ``transaction.version``, 0 before v5 of EndTxn."""

    producer: ProducerIdAndEpoch
    committed: bool
    client_version: int


def end(
    transaction: Transaction, request: Ending, *, now_ms: int, new_producer_id: Callable[[], int]
) -> TransactionRecord | None:
    """Return the decision to write, or None if it was made before. Raise ApiError by the tables."""
    if bumps_epoch(request.client_version):
        decides = _is_new_decision_with_bump(transaction, request)
    else:
        decides = _is_new_decision(transaction, request)
    return _decision(transaction.record, request, now_ms, new_producer_id) if decides else None


def fence(
    transaction: Transaction, *, server_version: int, now_ms: int, new_producer_id: Callable[[], int]
) -> TransactionRecord:
    """Return the abort of an ongoing transaction at a new epoch, which its producer does not have.

    Before version 2 the epoch grows at once, even if the record cannot be written. See ``has_failed_fence``.
    """
    if not bumps_epoch(server_version):
        record = transaction.record
        epoch = record.producer_epoch + (not transaction.has_failed_fence)
        transaction.record = replace(record, producer_epoch=epoch, last_producer_epoch=NO_EPOCH)
    request = Ending(producer=transaction.record.producer, committed=False, client_version=server_version)
    return _decision(transaction.record, request, now_ms, new_producer_id)


def _decision(
    record: TransactionRecord, request: Ending, now_ms: int, new_producer_id: Callable[[], int]
) -> TransactionRecord:
    rotates = bumps_epoch(request.client_version) and record.is_epoch_exhausted
    return prepare(
        record,
        committed=request.committed,
        # The table of version 1 is the same for 0 and 1, and Kafka stores 0 for both.
        client_version=request.client_version if bumps_epoch(request.client_version) else 0,
        now_ms=now_ms,
        next_producer_id=new_producer_id() if rotates else NO_PRODUCER_ID,
    )


def _is_new_decision(transaction: Transaction, request: Ending) -> bool:
    """Apply the first table. Return False if the decision was made before."""
    record = transaction.record
    if record.producer_id != request.producer.producer_id:
        raise _another_id(record, request)
    if record.producer_epoch != request.producer.producer_epoch:
        raise _fenced(record, request)
    if transaction.pending is not None:
        raise _wait(record)
    if record.state is TransactionState.ONGOING:
        return True
    if record.state is TransactionState.EMPTY or not _matches_decision(record, request):
        raise _invalid(record, request)
    if record.is_prepared:
        raise _wait(record)
    return False


def _is_new_decision_with_bump(transaction: Transaction, request: Ending) -> bool:
    """Apply the second table. Return False if the decision was made before."""
    record, producer = transaction.record, request.producer
    if transaction.pending is not None:
        raise _wait(record)
    is_overflow = (
        record.producer_id != producer.producer_id == record.previous_producer_id
        and producer.producer_epoch == LAST_EPOCH
        and record.producer_epoch == 0
    )
    if record.producer_id != producer.producer_id and not is_overflow:
        raise _another_id(record, request)
    ends_before = record.is_prepared or record.state in (
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    )
    is_retry = ends_before and (record.producer_epoch == producer.producer_epoch + 1 or is_overflow)
    is_current = record.producer_epoch == producer.producer_epoch and not record.is_prepared
    if is_retry:
        if not _matches_decision(record, request):
            raise _invalid(record, request)
        if record.is_prepared:
            raise _wait(record)
        return False
    if not is_current:
        raise _fenced(record, request)
    if request.committed and record.state is not TransactionState.ONGOING:
        raise _invalid(record, request)
    return True


def _matches_decision(record: TransactionRecord, request: Ending) -> bool:
    """Return True if the transaction's decision is the requested one."""
    return (record.state in _COMMITS) == request.committed


def _another_id(record: TransactionRecord, request: Ending) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"the producer id is {record.producer_id}, not {request.producer.producer_id}",
    )


def _fenced(record: TransactionRecord, request: Ending) -> ApiError:
    return ApiError(
        ErrorCode.PRODUCER_FENCED,
        f"the epoch is {record.producer_epoch} in state {record.state.label}, not {request.producer.producer_epoch}",
    )


def _invalid(record: TransactionRecord, request: Ending) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_TXN_STATE,
        f"a {record.state.label} transaction cannot be {'committed' if request.committed else 'aborted'}",
    )


def _wait(record: TransactionRecord) -> ApiError:
    return ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, f"the transaction is {record.state.label}, and not complete yet")
