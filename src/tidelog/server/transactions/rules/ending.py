"""How a transaction ends: by its producer (EndTxn), or by its coordinator, which fences the producer off.

Version 1 (EndTxn before v5) keeps the epoch, so a retry cannot be told from the next request; the state decides:

=================  ===========================  ===========================
state              commit                       abort
=================  ===========================  ===========================
Empty              INVALID_TXN_STATE            INVALID_TXN_STATE
Ongoing            PrepareCommit                PrepareAbort
PrepareCommit      CONCURRENT_TRANSACTIONS      INVALID_TXN_STATE
PrepareAbort       INVALID_TXN_STATE            CONCURRENT_TRANSACTIONS
CompleteCommit     ``None``: it is done         INVALID_TXN_STATE
CompleteAbort      INVALID_TXN_STATE            ``None``: it is done
=================  ===========================  ===========================

Before that: another producer id is INVALID_PRODUCER_ID_MAPPING, another epoch PRODUCER_FENCED, a transition under way
CONCURRENT_TRANSACTIONS.

Version 2 (KIP-890) gives every transaction an epoch. An epoch *before* the current one (or the last of the previous
producer id, after an overflow) can only be a retry; ``-`` is PRODUCER_FENCED:

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

Before that: a transition under way is CONCURRENT_TRANSACTIONS, another producer id INVALID_PRODUCER_ID_MAPPING. Where
the epochs of the producer id are used up, the producer gets the next producer id with the answer. Kafka 4.1 does not
do so when it fences, and such an epoch then overflows; later releases do as here.

Pure; see ``transaction``.
Source: Kafka's ``TransactionCoordinator.endTransaction`` and ``endTransactionWithTV1`` (4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal.transaction_state import TransactionState
from tidelog.server.transactions.rules.transaction import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
    Transaction,
    TransactionRecord,
    bumps_epoch,
)
from tidelog.server.transactions.rules.transitions import prepare

_COMMITS = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What an EndTxn asks for; ``client_version``: the ``transaction.version`` it is of, 0 before v5 of EndTxn."""

    producer: ProducerIdAndEpoch
    committed: bool
    client_version: int


def end(
    transaction: Transaction, wish: Ending, *, now_ms: int, new_producer_id: Callable[[], int]
) -> TransactionRecord | None:
    """The decision to write, None where this has been done before. ApiError by the tables."""
    if bumps_epoch(wish.client_version):
        decides = _decides_with_bump(transaction, wish)
    else:
        decides = _decides(transaction, wish)
    return _decision(transaction.record, wish, now_ms, new_producer_id) if decides else None


def fence(
    transaction: Transaction, *, server_version: int, now_ms: int, new_producer_id: Callable[[], int]
) -> TransactionRecord:
    """The abort of an ongoing transaction at a new epoch, which its producer does not have.

    Before version 2 the epoch rises at once, whether the record can be written or not: see ``has_failed_fence``.
    """
    if not bumps_epoch(server_version):
        record = transaction.record
        epoch = record.producer_epoch + (not transaction.has_failed_fence)
        transaction.record = replace(record, producer_epoch=epoch, last_producer_epoch=NO_EPOCH)
    wish = Ending(producer=transaction.record.producer, committed=False, client_version=server_version)
    return _decision(transaction.record, wish, now_ms, new_producer_id)


def _decision(
    record: TransactionRecord, wish: Ending, now_ms: int, new_producer_id: Callable[[], int]
) -> TransactionRecord:
    rotates = bumps_epoch(wish.client_version) and record.is_epoch_exhausted
    return prepare(
        record,
        committed=wish.committed,
        # The table of version 1 is the same for 0 and 1, and Kafka notes 0 for both.
        client_version=wish.client_version if bumps_epoch(wish.client_version) else 0,
        now_ms=now_ms,
        next_producer_id=new_producer_id() if rotates else NO_PRODUCER_ID,
    )


def _decides(transaction: Transaction, wish: Ending) -> bool:
    """By the first table; False where it is done."""
    record = transaction.record
    if record.producer_id != wish.producer.producer_id:
        raise _another_id(record, wish)
    if record.producer_epoch != wish.producer.producer_epoch:
        raise _fenced(record, wish)
    if transaction.pending is not None:
        raise _wait(record)
    if record.state is TransactionState.ONGOING:
        return True
    if record.state is TransactionState.EMPTY or not _agrees(record, wish):
        raise _invalid(record, wish)
    if record.is_prepared:
        raise _wait(record)
    return False


def _decides_with_bump(transaction: Transaction, wish: Ending) -> bool:
    """By the second table; False where it is done."""
    record, producer = transaction.record, wish.producer
    if transaction.pending is not None:
        raise _wait(record)
    is_overflow = (
        record.producer_id != producer.producer_id == record.previous_producer_id
        and producer.producer_epoch == LAST_EPOCH
        and record.producer_epoch == 0
    )
    if record.producer_id != producer.producer_id and not is_overflow:
        raise _another_id(record, wish)
    ends_before = record.is_prepared or record.state in (
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    )
    is_retry = ends_before and (record.producer_epoch == producer.producer_epoch + 1 or is_overflow)
    is_current = record.producer_epoch == producer.producer_epoch and not record.is_prepared
    if is_retry:
        if not _agrees(record, wish):
            raise _invalid(record, wish)
        if record.is_prepared:
            raise _wait(record)
        return False
    if not is_current:
        raise _fenced(record, wish)
    if wish.committed and record.state is not TransactionState.ONGOING:
        raise _invalid(record, wish)
    return True


def _agrees(record: TransactionRecord, wish: Ending) -> bool:
    """Whether the transaction was decided as it is asked for."""
    return (record.state in _COMMITS) == wish.committed


def _another_id(record: TransactionRecord, wish: Ending) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        f"the producer id is {record.producer_id}, not {wish.producer.producer_id}",
    )


def _fenced(record: TransactionRecord, wish: Ending) -> ApiError:
    return ApiError(
        ErrorCode.PRODUCER_FENCED,
        f"the epoch is {record.producer_epoch} in state {record.state.label}, not {wish.producer.producer_epoch}",
    )


def _invalid(record: TransactionRecord, wish: Ending) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_TXN_STATE,
        f"a {record.state.label} transaction cannot be {'committed' if wish.committed else 'aborted'}",
    )


def _wait(record: TransactionRecord) -> ApiError:
    return ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, f"the transaction is {record.state.label}, and on its way")
