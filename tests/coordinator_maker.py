"""Builder of ``__transaction_state`` partitions: it writes the records that a coordinator would have written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from log_maker import batch, write_segment
from tidelog.record.internal_records.frames import encode_key, encode_value
from tidelog.record.internal_records.transaction_tables import TRANSACTION_TYPES

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)


class State(NamedTuple):
    """A record. ``partitions`` are partitions of topic ``t``; a ``status`` of None removes the transactional id."""

    producer_id: int
    status: int | None
    partitions: tuple[int, ...] = ()
    name: str = "app"
    epoch: int = 0
    started: int = -1
    timeout_ms: int = 60_000


def state_record(offset: int, state: State) -> bytes:
    """Return a batch with one record."""
    key = encode_key(TRANSACTION_TYPES, 0, {"transactionalId": state.name})
    if state.status is None:
        return batch(offset, [None], key=key)
    fields = {
        "producerId": state.producer_id,
        "producerEpoch": state.epoch,
        "transactionTimeoutMs": state.timeout_ms,
        "transactionStatus": state.status,
        "transactionPartitions": [{"topic": "t", "partitionIds": list(state.partitions)}] if state.partitions else None,
        "transactionLastUpdateTimestampMs": state.started,
        "transactionStartTimestampMs": state.started,
    }
    return batch(offset, [encode_value(TRANSACTION_TYPES, 0, fields, 1)], key=key)


def write_states(root: Path, states: Sequence[State], *, partition: int = 0) -> Path:
    """Write a partition of the topic and return the path of its ``.log``."""
    records = [state_record(offset, state) for offset, state in enumerate(states)]
    return write_segment(root / f"__transaction_state-{partition}", 0, records)
