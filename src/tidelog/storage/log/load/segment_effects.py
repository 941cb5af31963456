"""A segment's effect on the producer state and the leader epochs, gathered independently of both.

Segments are walked in parallel, but producers and epochs depend on all earlier segments. A walk therefore only selects
the batches that matter (``gather``), and they are applied later, segment by segment (``apply``). It selects the
producers' batches that change the state, the first batch of each higher epoch, and the end offset. Only control batches
keep their bytes, for their marker. The result is the same as with all batches.

Thread rule: one thread for ``gather``; another may ``apply`` the result later.
Source: Kafka's ``LogSegment.recover``, which does this batch by batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidelog.kernel import BatchTable
from tidelog.kernel.table import COLUMNS
from tidelog.storage.epoch import LeaderEpochCache
from tidelog.storage.index import AbortedTxn
from tidelog.storage.log.state.producer_state import LogProducerState
from tidelog.storage.producer import relevant_rows
from tidelog.storage.segment.segment_reader import SegmentReader

_NO_EPOCH = -1


class SegmentEffects:
    __slots__ = ("_chunks", "_end_offset", "_epoch", "_epochs")

    def __init__(self) -> None:
        self._epoch = _NO_EPOCH
        self._epochs: list[tuple[int, int]] = []
        self._chunks: list[tuple[bytes, BatchTable]] = []
        self._end_offset: int | None = None

    def gather(self, reader: SegmentReader, table: BatchTable) -> None:
        """Gather the segment's next batches, at least one. Control batches are read once more, for their markers."""
        self.gather_epochs(table)
        self._end_offset = table.summary.last_offset + 1
        if table.summary.producer_id < 0:
            return
        rows = relevant_rows(table)
        sizes = np.where(table.is_control[rows], table.size[rows], 0)
        kept = b"".join(
            reader.read(position, size)
            for position, size in zip(table.position[rows].tolist(), sizes.tolist(), strict=True)
            if size
        )
        self._chunks.append((kept, _rebuilt(table, rows, np.cumsum(sizes) - sizes)))

    def apply(self, producers: LogProducerState, epochs: LeaderEpochCache) -> list[AbortedTxn]:
        """Apply the segment and return the transactions that its markers aborted.

        Raise CorruptRecordError for a control batch without a marker, and InvalidTransactionStateError for data outside
        an open transaction.
        """
        self.assign_epochs(epochs)
        aborted = []
        for buffer, table in self._chunks:
            aborted += producers.replay(buffer, table)
        if self._end_offset is not None:
            producers.state.map_end_offset = self._end_offset
        return aborted

    def assign_epochs(self, epochs: LeaderEpochCache) -> None:
        for epoch, start_offset in self._epochs:
            latest = epochs.latest_epoch
            if latest is None or epoch > latest:
                epochs.assign(epoch, start_offset)

    def gather_epochs(self, table: BatchTable) -> None:
        """Note the first batch of each higher epoch (-1: a format without epochs)."""
        if table.summary.leader_epoch <= self._epoch:
            return
        epochs = table.leader_epoch
        largest_before = np.maximum.accumulate(np.concatenate((np.array([self._epoch], epochs.dtype), epochs[:-1])))
        for row in np.flatnonzero(epochs > largest_before).tolist():
            self._epoch = int(epochs[row])
            self._epochs.append((self._epoch, int(table.base_offset[row])))


def _rebuilt(table: BatchTable, rows: NDArray[np.intp], positions: NDArray[np.int64]) -> BatchTable:
    """Return some rows of a table with positions in another buffer."""
    columns = {name: getattr(table, name)[rows] for name, _ in COLUMNS}
    return BatchTable.from_columns(columns | {"position": positions}, table.end_position)
