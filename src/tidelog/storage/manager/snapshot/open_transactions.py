"""The transactions that are open at the end of a snapshot, and their end.

The coordinators' records below the end of ``__transaction_state`` decide, by the producer's id:

==============================================  =======================================================================
the coordinators' record                        the transaction is
==============================================  =======================================================================
none, or of another time (see below)            aborted, with the epoch of its producer
Ongoing                                         aborted, with the next epoch; the transactional id becomes
                                                CompleteAbort with that epoch. So does a coordinator at a timeout, and
                                                it fences the producer's client
PrepareCommit, CompleteCommit                   committed, because it was decided: the other partitions of the
                                                transaction have their markers, or get them from a coordinator
PrepareAbort, CompleteAbort                     aborted, with the epoch of that record
==============================================  =======================================================================

A decision counts if it is not older than the producer's last record here, as otherwise it was about an earlier
transaction. With ``keep``, nothing is written: a broker that starts on the snapshot has the coordinators' records and
ends the transactions that they know after their timeout.

Pure. Source: Kafka's ``TransactionMetadata.prepareFenceProducerEpoch``; KIP-98, KIP-890.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidelog.kernel import BatchTable, ColumnDecoder
from tidelog.model import Record, TidelogError, TimestampType
from tidelog.record.build import build_batch
from tidelog.record.decode import decode_columns
from tidelog.record.internal_records.transaction_record import (
    TransactionRecord,
    TransactionState,
    key_of,
    record_of,
    transactional_id_of,
    value_of,
)
from tidelog.record.rows import iter_records
from tidelog.storage.producer import ProducerEntry

if TYPE_CHECKING:
    from typing_extensions import Buffer

_VERSION = struct.Struct(">h")
_DECISIONS: Mapping[TransactionState, bool] = {
    TransactionState.PREPARE_COMMIT: True,
    TransactionState.COMPLETE_COMMIT: True,
    TransactionState.PREPARE_ABORT: False,
    TransactionState.COMPLETE_ABORT: False,
}
"""The states with a decision, and if it is to commit."""


class OpenTransactionPolicy(enum.StrEnum):
    """The treatment of open transactions in a snapshot."""

    ABORT = "abort"
    KEEP = "keep"


class TransactionEnd(enum.StrEnum):
    """The end of an open transaction in a snapshot."""

    ABORTED = "aborted"
    COMMITTED = "committed"
    KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownId:
    """The newest record of a transactional id. ``version`` is its format's."""

    name: str
    record: TransactionRecord
    version: int

    @property
    def is_ongoing(self) -> bool:
        return self.record.state is TransactionState.ONGOING

    def fenced(self, now_ms: int) -> TransactionRecord:
        """Return the record after a coordinator has aborted the transaction and fenced its producer."""
        return replace(
            self.record,
            state=TransactionState.COMPLETE_ABORT,
            producer_epoch=self.record.producer_epoch + 1,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerChoice:
    """The marker that ends a transaction."""

    committed: bool
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledTransaction:
    """A transaction that is open at the end, and its end. ``transactional_id`` is None if no coordinator knows it."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    end: TransactionEnd
    transactional_id: str | None


def choose_marker(entry: ProducerEntry, known: KnownId | None) -> MarkerChoice:
    """Choose the marker of a producer's open transaction by the module's table."""
    if known is None:
        return MarkerChoice(committed=False, producer_epoch=entry.producer_epoch)
    record = known.record
    if known.is_ongoing:
        return MarkerChoice(committed=False, producer_epoch=max(entry.producer_epoch, record.producer_epoch + 1))
    decision = _DECISIONS.get(record.state)
    if decision is None or record.last_update_ms < entry.last_timestamp:
        return MarkerChoice(committed=False, producer_epoch=entry.producer_epoch)
    return MarkerChoice(committed=decision, producer_epoch=max(entry.producer_epoch, record.producer_epoch))


def read_ids(batches: Iterable[tuple[Buffer, BatchTable, int]], end_offset: int) -> dict[str, KnownId]:
    """Return the transactional ids in batches of one ``__transaction_state`` partition, with records below the end.

    A batch is its buffer, its table, and the position of the buffer's first byte. Unknown records are left out.
    """
    found: dict[str, KnownId] = {}
    for buffer, table, base_position in batches:
        decoder = ColumnDecoder(headers=False, end_offset=end_offset)
        rows = table.take(~table.is_control)
        for columns in decode_columns(buffer, rows, decoder, base_position=base_position):
            for record in iter_records(columns):
                if record.key is not None:
                    _apply(found, record.key, record.value)
    return found


def _apply(found: dict[str, KnownId], key: bytes, value: bytes | None) -> None:
    try:
        name = transactional_id_of(key)
        if name is None:
            return
        found.pop(name, None)
        if value is not None:
            found[name] = KnownId(
                name=name, record=record_of(value, allow_unknown_state=True), version=_VERSION.unpack_from(value)[0]
            )
    except TidelogError:
        return


def by_producer(ids: Iterable[KnownId]) -> dict[int, KnownId]:
    return {known.record.producer_id: known for known in ids}


def fencing_batch(ids: Iterable[KnownId], now_ms: int) -> bytearray | None:
    """Return the batch that makes the ongoing ``ids`` aborted and fenced, None if none is ongoing."""
    records = [
        Record(0, now_ms, TimestampType.CREATE, key_of(known.name), value_of(known.fenced(now_ms), known.version))
        for known in sorted(ids, key=lambda one: one.name)
        if known.is_ongoing
    ]
    return build_batch(records) if records else None
