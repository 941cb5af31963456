"""The transitions between records of a transactional id: unchanged and changed fields of each.

=================  ========  ==================  ====================  =====================  ==========================
transition         state     producer id         epoch                 last epoch             other fields
=================  ========  ==================  ====================  =====================  ==========================
raise_epoch        Empty     unchanged           + 1                   the old epoch, if the  timeout set, no
                                                                       client named it        partitions, no start
rotate             Empty     a new one           0                     as above               as above
repeat             Empty     unchanged           unchanged             unchanged              as above
add_partitions     Ongoing   unchanged           unchanged             unchanged              start: now, unless Ongoing
prepare, before 2  Prepare…  unchanged           unchanged             unchanged
prepare, from 2    Prepare…  unchanged           + 1                   the old epoch          next producer id, if the
                                                                                              epochs are used up
complete           Complete… the next, if there  0 with the next id,   unchanged              no partitions
                             is one              else unchanged
=================  ========  ==================  ====================  =====================  ==========================

The previous producer id is always the one before the transition. Pure. Source: ``TransactionMetadata`` (Kafka 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidelog.model import TopicPartition
from tidelog.record.internal_records.transaction_record import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    TransactionRecord,
    TransactionState,
)
from tidelog.server.transactions.rules.transaction import bumps_epoch


def first_record(producer_id: int, *, timeout_ms: int, now_ms: int) -> TransactionRecord:
    """Return the record of a new transactional id, which has no epoch and is in no log."""
    return TransactionRecord(
        state=TransactionState.EMPTY,
        producer_id=producer_id,
        producer_epoch=NO_EPOCH,
        timeout_ms=timeout_ms,
        last_update_ms=now_ms,
    )


def raise_epoch(record: TransactionRecord, *, remember: bool, timeout_ms: int, now_ms: int) -> TransactionRecord:
    """Raise the epoch. ``remember``: the client named its epoch, and may retry."""
    last = record.producer_epoch if remember else NO_EPOCH
    return _emptied(record, record.producer_id, record.producer_epoch + 1, last, timeout_ms, now_ms)


def rotate(
    record: TransactionRecord, producer_id: int, *, remember: bool, timeout_ms: int, now_ms: int
) -> TransactionRecord:
    last = record.producer_epoch if remember else NO_EPOCH
    return _emptied(record, producer_id, 0, last, timeout_ms, now_ms)


def repeat(record: TransactionRecord, *, timeout_ms: int, now_ms: int) -> TransactionRecord:
    """Repeat the last transition: the response was lost, and the client retries."""
    epoch, last = record.producer_epoch, record.last_producer_epoch
    return _emptied(record, record.producer_id, epoch, last, timeout_ms, now_ms)


def add_partitions(
    record: TransactionRecord, partitions: Iterable[TopicPartition], *, client_version: int, now_ms: int
) -> TransactionRecord:
    return replace(
        record,
        state=TransactionState.ONGOING,
        previous_producer_id=record.producer_id,
        partitions=record.partitions.union(partitions),
        start_ms=now_ms if record.is_idle else record.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def prepare(
    record: TransactionRecord,
    *,
    committed: bool,
    client_version: int,
    now_ms: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> TransactionRecord:
    """Decide the end. An abort without an open transaction (version 2) begins at its end."""
    bumped = bumps_epoch(client_version)
    return replace(
        record,
        state=TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT,
        producer_epoch=record.producer_epoch + bumped,
        last_producer_epoch=record.producer_epoch if bumped else record.last_producer_epoch,
        previous_producer_id=record.producer_id,
        next_producer_id=next_producer_id,
        start_ms=now_ms if record.is_idle else record.start_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def complete(record: TransactionRecord, *, now_ms: int) -> TransactionRecord:
    """Complete the transaction after all markers were written."""
    committed = record.state is TransactionState.PREPARE_COMMIT
    rotates = bumps_epoch(record.client_version) and record.next_producer_id != NO_PRODUCER_ID
    return replace(
        record,
        state=TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
        producer_id=record.next_producer_id if rotates else record.producer_id,
        producer_epoch=0 if rotates else record.producer_epoch,
        previous_producer_id=record.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )


def expire(record: TransactionRecord) -> TransactionRecord:
    return replace(record, state=TransactionState.DEAD, partitions=frozenset())


def _emptied(
    record: TransactionRecord, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
) -> TransactionRecord:
    return replace(
        record,
        state=TransactionState.EMPTY,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        previous_producer_id=record.producer_id,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NO_TIME,
        last_update_ms=now_ms,
    )
