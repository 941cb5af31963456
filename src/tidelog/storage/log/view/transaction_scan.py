"""The open, committed and aborted transactions in a run of batches, computed on whole columns.

A producer's transaction in a partition reaches from its first transactional batch after its last marker to its next
marker. A marker without data before it ends no transaction (KIP-890 writes these). A control batch without records
remains of a compacted marker. Readers need no other producer state, so it is derived here from the batch table with a
few sorts instead of batch by batch.

The open transactions are the state passed from one run of batches to the next.

A batch is aborted if it is transactional and its base offset lies in ``[first_offset, last_offset]`` of an aborted
transaction of its producer (KIP-98; a producer's transactions do not overlap). Pure, no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tidelog.kernel import BatchTable
from tidelog.model import CorruptRecordError
from tidelog.record.attributes import TRANSACTIONAL_FLAG
from tidelog.record.batch_header import V2_HEADER_BYTES
from tidelog.record.control import ControlType, control_type_id
from tidelog.storage.index.transaction_index import AbortedTxn

DATA, COMMIT, ABORT = 0, 1, 2

BatchAt = Callable[[int, int], memoryview]
"""Returns the bytes of a segment from a position on: ``(position, size)``."""


class TransactionRows(NamedTuple):
    """The rows of a batch table that matter to transactions, in log order. ``kind`` is DATA, COMMIT or ABORT."""

    producer_id: NDArray[np.int64]
    base_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    kind: NDArray[np.int8]

    @classmethod
    def empty(cls) -> Self:
        none = np.empty(0, np.int64)
        return cls(none, none, none, np.empty(0, np.int8))

    @classmethod
    def concat(cls, parts: Sequence[TransactionRows]) -> Self:
        if not parts:
            return cls.empty()
        return cls(
            np.concatenate([part.producer_id for part in parts]),
            np.concatenate([part.base_offset for part in parts]),
            np.concatenate([part.last_offset for part in parts]),
            np.concatenate([part.kind for part in parts]),
        )

    def take(self, rows: NDArray[np.bool_]) -> Self:
        return type(self)(self.producer_id[rows], self.base_offset[rows], self.last_offset[rows], self.kind[rows])


def transaction_rows(buffer: memoryview, table: BatchTable, base_position: int) -> TransactionRows:
    """Select the transactional batches and the markers. ``buffer[0]`` lies at ``base_position``."""
    return header_rows(table, lambda position, size: buffer[position - base_position :][:size])


def header_rows(table: BatchTable, batch_at: BatchAt) -> TransactionRows:
    """Select the transactional batches and the markers. The bytes of markers come from ``batch_at``."""
    if not table.summary.attributes & TRANSACTIONAL_FLAG:
        return TransactionRows.empty()
    rows = np.flatnonzero(table.is_transactional & (table.producer_id >= 0))
    if not len(rows):
        return TransactionRows.empty()
    kind = np.zeros(len(rows), np.int8)
    keep = np.ones(len(rows), np.bool_)
    for at in np.flatnonzero(table.is_control[rows]).tolist():
        row = int(rows[at])
        type_id = marker_type(batch_at(int(table.position[row]), int(table.size[row])))
        keep[at] = type_id in (ControlType.COMMIT, ControlType.ABORT)
        kind[at] = ABORT if type_id == ControlType.ABORT else COMMIT
    rows, kind = rows[keep], kind[keep]
    return TransactionRows(table.producer_id[rows], table.base_offset[rows], table.last_offset[rows], kind)


def marker_type(batch: memoryview) -> int | None:
    """Return the type number of a v2 control batch's first record, or None if it has no readable record.

    An unreadable marker therefore leaves its transaction open: a reader then gets fewer records, never aborted ones.
    """
    try:
        at = _skip_varint(batch, V2_HEADER_BYTES) + 1  # the record's length and attributes
        at = _skip_varint(batch, _skip_varint(batch, at))  # timestamp and offset deltas
        return control_type_id(batch[at + 1 : at + 1 + batch[at] // 2])
    except (IndexError, CorruptRecordError):
        return None


def _skip_varint(data: memoryview, at: int) -> int:
    while data[at] & 0x80:
        at += 1
    return at + 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CompletedTransactions:
    """Columns in the order of their markers. ``last_offset`` is the marker's."""

    producer_id: NDArray[np.int64]
    first_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]
    aborted: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.producer_id)


class UnstableTransaction(NamedTuple):
    """A transaction that is open, or whose marker is not below the high watermark."""

    first_offset: int
    producer_id: int
    is_open: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TransactionScan:
    """The transactions of a run of batches."""

    open: Mapping[int, int]
    """First offset of the open transaction, by producer id."""
    completed: CompletedTransactions

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the lowest offset of a transaction that is open, or whose marker is not below the high watermark."""
        found = self.first_unstable(high_watermark)
        return None if found is None else found.first_offset

    def first_unstable(self, high_watermark: int) -> UnstableTransaction | None:
        """Return the first transaction that is open, or whose marker is not below the high watermark."""
        candidates = [UnstableTransaction(offset, producer_id, True) for producer_id, offset in self.open.items()]
        unreplicated = np.flatnonzero(self.completed.last_offset >= high_watermark)
        if len(unreplicated):
            first = int(unreplicated[np.argmin(self.completed.first_offset[unreplicated])])
            offset, producer_id = self.completed.first_offset[first], self.completed.producer_id[first]
            candidates.append(UnstableTransaction(int(offset), int(producer_id), False))
        return min(candidates, default=None)


def scan_transactions(rows: TransactionRows, already_open: Mapping[int, int]) -> TransactionScan:
    """Match data with markers. ``already_open`` holds the transactions that were open before the first row."""
    count = len(already_open)
    # An open transaction is represented by a batch at its first offset before all others.
    producer = np.concatenate([np.fromiter(already_open.keys(), np.int64, count), rows.producer_id])
    first = np.concatenate([np.fromiter(already_open.values(), np.int64, count), rows.base_offset])
    last = np.concatenate([np.full(count, -1, np.int64), rows.last_offset])
    kind = np.concatenate([np.zeros(count, np.int8), rows.kind])
    order = np.argsort(producer, kind="stable")
    producer, first, last, kind = producer[order], first[order], last[order], kind[order]

    same_producer = np.zeros(len(order), np.bool_)
    same_producer[1:] = producer[1:] == producer[:-1]
    after_data = np.zeros(len(order), np.bool_)
    after_data[1:] = same_producer[1:] & (kind[:-1] == DATA)
    begins = (kind == DATA) & ~after_data
    begun_at = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    ends = np.flatnonzero((kind != DATA) & after_data)
    ends = ends[np.argsort(last[ends], kind="stable")]

    last_of_producer = np.ones(len(order), np.bool_)
    last_of_producer[:-1] = ~same_producer[1:]
    still_open = np.flatnonzero(last_of_producer & (kind == DATA))
    return TransactionScan(
        open=dict(zip(producer[still_open].tolist(), first[begun_at[still_open]].tolist(), strict=True)),
        completed=CompletedTransactions(
            producer_id=producer[ends],
            first_offset=first[begun_at[ends]],
            last_offset=last[ends],
            aborted=kind[ends] == ABORT,
        ),
    )


class AbortedRanges:
    """Aborted transactions as columns, sorted by producer, then by first offset. ``len`` is their number."""

    __slots__ = ("first_offset", "last_offset", "producer_id")

    def __init__(
        self, producer_id: NDArray[np.int64], first_offset: NDArray[np.int64], last_offset: NDArray[np.int64]
    ) -> None:
        order = np.lexsort((first_offset, producer_id))
        self.producer_id = producer_id[order]
        self.first_offset = first_offset[order]
        self.last_offset = last_offset[order]

    @classmethod
    def of(cls, indexed: Iterable[AbortedTxn]) -> Self:
        """Build the ranges from entries of transaction indexes."""
        columns = np.array([entry[:3] for entry in indexed], np.int64).reshape(-1, 3).T
        return cls(columns[0], columns[1], columns[2])

    def with_completed(self, completed: CompletedTransactions) -> Self:
        """Return these ranges together with the aborted transactions of a scan."""
        aborted = completed.aborted
        if not aborted.any():
            return self
        return type(self)(
            np.concatenate([self.producer_id, completed.producer_id[aborted]]),
            np.concatenate([self.first_offset, completed.first_offset[aborted]]),
            np.concatenate([self.last_offset, completed.last_offset[aborted]]),
        )

    def touching(self, start: int, end: int) -> Self:
        """Return the ranges that can contain a batch with offsets in ``[start, end)``."""
        near = (self.last_offset >= start) & (self.first_offset < end)
        if near.all():
            return self
        return type(self)(self.producer_id[near], self.first_offset[near], self.last_offset[near])

    def __len__(self) -> int:
        return len(self.producer_id)

    def hits(self, table: BatchTable) -> NDArray[np.bool_]:
        """Return, for each row, True if its records belong to an aborted transaction. Control batches do not."""
        found = np.zeros(len(table), np.bool_)
        rows = np.flatnonzero(table.is_transactional & ~table.is_control)
        if not len(rows) or not len(self):
            return found
        # Sort ranges and batches together by (producer, offset): only the last range before a batch can contain it.
        count = len(self)
        producer = np.concatenate([self.producer_id, table.producer_id[rows]])
        offset = np.concatenate([self.first_offset, table.base_offset[rows]])
        is_batch = np.arange(len(producer)) >= count
        order = np.lexsort((is_batch, offset, producer))
        nearest = np.maximum.accumulate(np.where(is_batch[order], -1, np.arange(len(order))))
        batch_at = np.flatnonzero(is_batch[order] & (nearest >= 0))
        range_row = order[nearest[batch_at]]
        batch_row = rows[order[batch_at] - count]
        found[batch_row] = (self.producer_id[range_row] == table.producer_id[batch_row]) & (
            table.base_offset[batch_row] <= self.last_offset[range_row]
        )
        return found
