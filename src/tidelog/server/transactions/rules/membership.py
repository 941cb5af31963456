"""Partitions of a transaction: a producer adds them, a broker verifies them.

The first matching row counts.

==============================================  =============================  ==========================
the transaction                                 add                            verify
==============================================  =============================  ==========================
has a pending transition                        CONCURRENT_TRANSACTIONS        (ignored)
has another producer id                         INVALID_PRODUCER_ID_MAPPING    INVALID_PRODUCER_ID_MAPPING
has another epoch                               PRODUCER_FENCED                PRODUCER_FENCED
PrepareCommit, PrepareAbort                     CONCURRENT_TRANSACTIONS        CONCURRENT_TRANSACTIONS
Ongoing, and has all the partitions             ``None``: nothing to write     NONE
else                                            Ongoing, with the partitions   TRANSACTION_ABORTABLE for each
                                                                               partition that is missing
==============================================  =============================  ==========================

A verification ignores a pending transition, because the log checks again when the records are appended (the
verification guard). Pure; see ``transaction``. Source: Kafka's
``TransactionCoordinator.handleAddPartitionsToTransaction`` and ``handleVerifyPartitionsInTransaction`` (4.1; KIP-890).
"""

from __future__ import annotations

from collections.abc import Collection

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch, TransactionRecord, TransactionState
from tidelog.server.transactions.rules.transaction import Transaction
from tidelog.server.transactions.rules.transitions import add_partitions


def add(
    transaction: Transaction,
    producer: ProducerIdAndEpoch,
    partitions: Collection[TopicPartition],
    *,
    client_version: int,
    now_ms: int,
) -> TransactionRecord | None:
    """Return the record to write, or None if the transaction has all the partitions. Raise ApiError by the table."""
    record = transaction.record
    if transaction.pending is not None:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, "a transition is pending")
    _require_producer(record, producer)
    if record.state is TransactionState.ONGOING and record.partitions.issuperset(partitions):
        return None
    return add_partitions(record, partitions, client_version=client_version, now_ms=now_ms)


def missing(
    transaction: Transaction, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
) -> frozenset[TopicPartition]:
    """Return the ``partitions`` that are not in the transaction. Raise ApiError by the table."""
    _require_producer(transaction.record, producer)
    return frozenset(partitions) - transaction.record.partitions


def _require_producer(record: TransactionRecord, producer: ProducerIdAndEpoch) -> None:
    if record.producer_id != producer.producer_id:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"the producer id is {record.producer_id}, not {producer.producer_id}",
        )
    if record.producer_epoch != producer.producer_epoch:
        raise ApiError(
            ErrorCode.PRODUCER_FENCED, f"the epoch is {record.producer_epoch}, not {producer.producer_epoch}"
        )
    if record.is_prepared:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, f"the transaction is {record.state.label}")
