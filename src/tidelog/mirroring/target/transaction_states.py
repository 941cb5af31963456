"""The records of ``__transaction_state`` that a mirror looks into, batch by batch. Pure.

A transaction coordinator writes a state Prepare… before the markers, and Complete… after them. A copy must not have a
Complete state without the markers: its transaction would stay open for good. So these functions find the batches that
complete a transaction, and the producer ids in all states. The topic is small, so its records are decoded in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tidelog.kernel import ColumnDecoder, scan_batches
from tidelog.model import TidelogError
from tidelog.record.decode import decode_columns
from tidelog.record.internal_records.transaction_record import TransactionRecord, TransactionState, record_of
from tidelog.record.rows import iter_records

if TYPE_CHECKING:
    from typing_extensions import Buffer

_COMPLETE = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})


def producer_ids(records: Buffer) -> Iterator[int]:
    """Yield the producer ids in the states. A state of a later release is left out."""
    for _position, state in _states(records):
        yield from (state.producer_id, state.previous_producer_id, state.next_producer_id)


def size_before_open(records: Buffer, is_open: Callable[[int], bool]) -> int:
    """Return the bytes before the first batch that completes a transaction which ``is_open``, by producer id."""
    for position, state in _states(records):
        ids = {state.producer_id, state.previous_producer_id}
        if state.state in _COMPLETE and any(is_open(one) for one in ids if one >= 0):
            return position
    return memoryview(records).nbytes


def _states(records: Buffer) -> Iterator[tuple[int, TransactionRecord]]:
    """Yield the position of a batch and each state in it."""
    table = scan_batches(records, verify_crc=False)
    decoder = ColumnDecoder(keys=False, headers=False)
    for number in range(len(table)):
        position = int(table.position[number])
        for columns in decode_columns(records, table.take(slice(number, number + 1)), decoder):
            for record in iter_records(columns):
                if record.value is not None:
                    try:
                        state = record_of(bytes(record.value), allow_unknown_state=True)
                    except TidelogError:
                        continue
                    yield position, state
