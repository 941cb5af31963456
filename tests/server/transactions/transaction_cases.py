"""Transactions in every state, for tests of a coordinator's decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch, TransactionRecord, TransactionState
from tidelog.server.transactions.rules.transaction import Transaction

NOW = 1_700_000_000_000
PRODUCER_ID = 7
EPOCH = 5
PRODUCER = ProducerIdAndEpoch(PRODUCER_ID, EPOCH)
FIRST_NEW_ID = 1000
PARTITIONS = frozenset({TopicPartition("events", 0), TopicPartition("events", 3), TopicPartition("audit", 1)})
EARLIER = NOW - 1000


def record(state: TransactionState, **changes: Any) -> TransactionRecord:
    """Return a record that a log may contain."""
    open_states = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
    plain = TransactionRecord(
        state=state,
        producer_id=PRODUCER_ID,
        producer_epoch=EPOCH,
        timeout_ms=60_000,
        last_update_ms=EARLIER,
        start_ms=-1 if state is TransactionState.EMPTY else EARLIER,
        partitions=PARTITIONS if state in open_states else frozenset(),
        client_version=2,
        last_producer_epoch=EPOCH - 1,
        previous_producer_id=PRODUCER_ID,
    )
    return replace(plain, **changes)


def transaction(state: TransactionState, **changes: Any) -> Transaction:
    return Transaction(transactional_id="orders", record=record(state, **changes))


def new_ids() -> Callable[[], int]:
    return count(FIRST_NEW_ID).__next__


def refusal(decide: Callable[[], object]) -> ErrorCode | object:
    """Return the result of ``decide``, or the code of its ApiError."""
    try:
        return decide()
    except ApiError as error:
        return error.code
