"""From one record of a transactional id to the next: what each transition keeps and what it changes.

=================  ========  ==================  ====================  =====================  ==========================
transition         state     producer id         epoch                 last epoch             else
=================  ========  ==================  ====================  =====================  ==========================
raise_epoch        Empty     stays               + 1                   the one before, where  time-out set, no
                                                                       the client named it    partitions, no start
rotate             Empty     a new one           0                     as above               as above
repeat             Empty     stays               stays                 stays                  as above
add_partitions     Ongoing   stays               stays                 stays                  start: now, unless Ongoing
prepare, before 2  Prepare…  stays               stays                 stays
prepare, from 2    Prepare…  stays               + 1                   the one before         next producer id, where
                                                                                              the epochs are used up
complete           Complete… the next, if there  0 with the next id,   stays                  no partitions
                             is one              else stays
=================  ========  ==================  ====================  =====================  ==========================

The previous producer id is always the one before the transition. Pure. Source: ``TransactionMetadata`` (Kafka 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidelog.model import TopicPartition
from tidelog.record.internal.transaction_state import TransactionState
from tidelog.server.transactions.rules.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    TransactionRecord,
    bumps_epoch,
)


def first_record(producer_id: int, *, timeout_ms: int, now_ms: int) -> TransactionRecord:
    """Of a transactional id that is new; it has no epoch yet and is in no log."""
    return TransactionRecord(
        state=TransactionState.EMPTY,
        producer_id=producer_id,
        producer_epoch=NO_EPOCH,
        timeout_ms=timeout_ms,
        last_update_ms=now_ms,
    )


def raise_epoch(record: TransactionRecord, *, remember: bool, timeout_ms: int, now_ms: int) -> TransactionRecord:
    """``remember``: the client named its epoch, and may ask again."""
    last = record.producer_epoch if remember else NO_EPOCH
    return _emptied(record, record.producer_id, record.producer_epoch + 1, last, timeout_ms, now_ms)


def rotate(
    record: TransactionRecord, producer_id: int, *, remember: bool, timeout_ms: int, now_ms: int
) -> TransactionRecord:
    last = record.producer_epoch if remember else NO_EPOCH
    return _emptied(record, producer_id, 0, last, timeout_ms, now_ms)


def repeat(record: TransactionRecord, *, timeout_ms: int, now_ms: int) -> TransactionRecord:
    """The answer got lost, the client asks again."""
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
    """The decision. An abort without a transaction, as version 2 has it, begins when it ends."""
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
    """All markers are written."""
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
