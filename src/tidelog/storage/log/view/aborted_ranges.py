"""The aborted transactions that a read must leave out, and the batches that belong to them.

A batch is aborted if it is transactional and its base offset lies in ``[first_offset, last_offset]`` of an aborted
transaction of its producer (KIP-98; a producer's transactions do not overlap). Pure and immutable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tidelog.kernel import BatchTable
from tidelog.storage.index.transaction_index import AbortedTransaction
from tidelog.storage.log.view.transaction_scan import CompletedTransactions


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
    def of(cls, indexed: Iterable[AbortedTransaction]) -> Self:
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
