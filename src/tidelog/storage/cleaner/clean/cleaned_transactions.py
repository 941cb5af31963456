"""Transactions as a clean passes their batches: which are aborted data, which markers nobody needs any more.

===================  ==========================================  =====================================================
a batch              of                                          can be discarded
===================  ==========================================  =====================================================
data                 an aborted transaction                      yes; the transaction has data here
data                 any other                                   no; a transaction of its producer has data here
abort marker         a transaction that had data here            no; it keeps its entry in the transaction index
abort marker         one that had none, or no entry              yes
commit marker        one that had data here                      no
commit marker        one that had none                           yes
a marker's batch     that was emptied before                     yes
control batch        of no producer                              no
===================  ==========================================  =====================================================

So a marker goes in a later clean than the data of its transaction. What is known of a transaction is carried from batch
to batch, over segments and groups: batches come in the order of their offsets, and the transactions aborted among them
are ``add``\\ ed before. Tables without transactions are passed as a whole, of others the batches of transactions one by
one. Pure. Thread rule: one thread. Source: Kafka's ``CleanedTransactionMetadata`` (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.model import CorruptRecordError
from tidelog.record.attributes import CONTROL_FLAG, TRANSACTIONAL_FLAG
from tidelog.storage.index import AbortedTransaction
from tidelog.storage.producer import read_marker
from tidelog.storage.segment.segment_reader import Chunk


class TransactionVerdicts(NamedTuple):
    """On the batches of one chunk."""

    discardable: npt.NDArray[np.bool_]
    aborted: tuple[AbortedTransaction, ...]
    """Those whose markers are among the batches and stay, in the order of the markers."""


class _Aborted:
    """An aborted transaction that is under way."""

    __slots__ = ("has_data", "transaction")

    def __init__(self, transaction: AbortedTransaction) -> None:
        self.transaction = transaction
        self.has_data = False


class CleanedTransactions:
    def __init__(self) -> None:
        self._coming: list[tuple[int, AbortedTransaction]] = []
        """A heap by first offset."""
        self._aborted: dict[int, _Aborted] = {}
        """By producer."""
        self._with_data: set[int] = set()
        """Producers of other transactions."""

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Transactions that the next batches may belong to; those that are known already do not matter."""
        for transaction in aborted:
            heappush(self._coming, (transaction.first_offset, transaction))

    def judge(self, chunk: Chunk) -> TransactionVerdicts:
        """The next batches. CorruptRecordError for a producer's control batch without a marker in it."""
        table = chunk.table
        discardable = np.zeros(len(table), np.bool_)
        if not table.summary.attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG):
            return TransactionVerdicts(discardable, ())
        rows = np.flatnonzero(table.is_transactional | table.is_control)
        kept: list[AbortedTransaction] = []
        columns = (rows, table.last_offset[rows], table.producer_id[rows], table.is_control[rows])
        for row, last_offset, producer_id, is_control in zip(*(column.tolist() for column in columns), strict=True):
            self._begin_up_to(last_offset)
            if is_control:
                discardable[row] = self._pass_control(chunk, row, producer_id, kept)
            else:
                discardable[row] = self._pass_data(producer_id)
        return TransactionVerdicts(discardable, tuple(kept))

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            transaction = heappop(self._coming)[1]
            self._aborted.setdefault(transaction.producer_id, _Aborted(transaction))

    def _pass_data(self, producer_id: int) -> bool:
        transaction = self._aborted.get(producer_id)
        if transaction is None:
            self._with_data.add(producer_id)
            return False
        transaction.has_data = True
        return True

    def _pass_control(self, chunk: Chunk, row: int, producer_id: int, kept: list[AbortedTransaction]) -> bool:
        if chunk.table.record_count[row] <= 0:
            return True
        if producer_id < 0:
            return False
        if _is_commit(chunk, row):
            had_data = producer_id in self._with_data
            self._with_data.discard(producer_id)
            return not had_data
        transaction = self._aborted.pop(producer_id, None)
        if transaction is None or not transaction.has_data:
            return True
        kept.append(transaction.transaction)
        return False


def _is_commit(chunk: Chunk, row: int) -> bool:
    batch = chunk.table.row(row)
    start = batch.position - chunk.base_position
    try:
        record = read_marker(chunk.buffer[start : start + batch.size])
    except CorruptRecordError as error:
        raise CorruptRecordError(error.message, position=batch.position, offset=batch.base_offset) from None
    assert record is not None  # the batch is not empty
    return record.marker.committed
