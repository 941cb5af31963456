"""The state of transactions during a clean, which finds aborted data and obsolete markers.

===================  ==========================================  =====================================================
batch                transaction                                 can it be discarded?
===================  ==========================================  =====================================================
data                 an aborted transaction                      yes; the transaction counts as having data here
data                 any other transaction                       no; its transaction counts as having data here
abort marker         an aborted one with data here               no; it keeps its entry in the transaction index
abort marker         one without data here, or without an entry  yes
commit marker        one with data here                          no
commit marker        one without data here                       yes
emptied marker       any                                         yes
control batch        no producer                                 no
===================  ==========================================  =====================================================

So a marker is removed by a later clean than its transaction's data. The state is carried from batch to batch, across
segments and groups. Batches come in offset order. The aborted transactions among them must be passed to ``add`` first.
A table without transactional and control batches is passed at once; otherwise only those batches are passed, one by
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
from tidelog.storage.index import AbortedTxn
from tidelog.storage.producer import read_marker
from tidelog.storage.segment.segment_reader import Chunk


class TransactionDecisions(NamedTuple):
    """The decisions for the batches of a chunk."""

    discardable: npt.NDArray[np.bool_]
    aborted: tuple[AbortedTxn, ...]
    """The transactions whose markers are among the batches and stay, in marker order."""


class _Aborted:
    """An aborted transaction whose marker has not come yet."""

    __slots__ = ("has_data", "transaction")

    def __init__(self, transaction: AbortedTxn) -> None:
        self.transaction = transaction
        self.has_data = False


class CleanedTransactions:
    def __init__(self) -> None:
        self._future: list[tuple[int, AbortedTxn]] = []
        """A heap of future aborted transactions, ordered by first offset."""
        self._aborted: dict[int, _Aborted] = {}
        """The open aborted transactions by producer."""
        self._with_data: set[int] = set()
        """The producers whose other transactions have data here."""

    def add(self, aborted: Iterable[AbortedTxn]) -> None:
        """Add transactions that the next batches may belong to. A transaction may be added twice."""
        for transaction in aborted:
            heappush(self._future, (transaction.first_offset, transaction))

    def decide(self, chunk: Chunk) -> TransactionDecisions:
        """Decide for the next batches. Raise CorruptRecordError if a producer's control batch has no marker."""
        table = chunk.table
        discardable = np.zeros(len(table), np.bool_)
        if not table.summary.attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG):
            return TransactionDecisions(discardable, ())
        rows = np.flatnonzero(table.is_transactional | table.is_control)
        kept: list[AbortedTxn] = []
        columns = (rows, table.last_offset[rows], table.producer_id[rows], table.is_control[rows])
        for row, last_offset, producer_id, is_control in zip(*(column.tolist() for column in columns), strict=True):
            self._begin_up_to(last_offset)
            if is_control:
                discardable[row] = self._pass_control(chunk, row, producer_id, kept)
            else:
                discardable[row] = self._pass_data(producer_id)
        return TransactionDecisions(discardable, tuple(kept))

    def _begin_up_to(self, offset: int) -> None:
        while self._future and self._future[0][0] <= offset:
            transaction = heappop(self._future)[1]
            self._aborted.setdefault(transaction.producer_id, _Aborted(transaction))

    def _pass_data(self, producer_id: int) -> bool:
        transaction = self._aborted.get(producer_id)
        if transaction is None:
            self._with_data.add(producer_id)
            return False
        transaction.has_data = True
        return True

    def _pass_control(self, chunk: Chunk, row: int, producer_id: int, kept: list[AbortedTxn]) -> bool:
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
