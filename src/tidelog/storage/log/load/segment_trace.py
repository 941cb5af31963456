"""What a segment's batches leave in the producer state and the leader epochs, gathered apart from both.

Segments are walked side by side, but producers and epochs depend on all that came before: so a walk only picks out the
batches that matter (``gather``, in any thread), and they are taken in later, segment by segment (``apply``). What is
picked of a chunk: the producers' batches that leave a trace, the first batch of each higher epoch, the end. Of their
bytes only control batches are kept, for the marker in them. The result is the same as of all the batches.

Called by: the loader. Thread rule: ``gather`` by one thread, ``apply`` after it by another.
Source: what Kafka's ``LogSegment.recover`` does batch by batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tidelog.kernel import BatchTable
from tidelog.kernel.table import COLUMNS
from tidelog.storage.epoch import LeaderEpochCache
from tidelog.storage.index import AbortedTransaction
from tidelog.storage.log.producer_state import LogProducerState
from tidelog.storage.producer import rows_with_a_trace

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NO_EPOCH = -1


class SegmentTrace:
    __slots__ = ("_chunks", "_end_offset", "_epoch", "_epochs")

    def __init__(self) -> None:
        self._epoch = _NO_EPOCH
        self._epochs: list[tuple[int, int]] = []
        self._chunks: list[tuple[bytes, BatchTable]] = []
        self._end_offset: int | None = None

    def gather(self, buffer: Buffer, table: BatchTable) -> None:
        """The next batches of the segment, at least one; ``buffer[0]`` is the first's first byte."""
        self.gather_epochs(table)
        self._end_offset = table.summary.last_offset + 1
        if table.summary.producer_id < 0:
            return
        rows = rows_with_a_trace(table)
        view = memoryview(buffer).cast("B")
        first = int(table.position[0])
        sizes = np.where(table.is_control[rows], table.size[rows], 0)
        kept = b"".join(
            view[position - first : position - first + size]
            for position, size in zip(table.position[rows].tolist(), sizes.tolist(), strict=True)
            if size
        )
        self._chunks.append((kept, _rebuilt(table, rows, np.cumsum(sizes) - sizes)))

    def apply(self, producers: LogProducerState, epochs: LeaderEpochCache) -> list[AbortedTransaction]:
        """Take the segment in; the transactions that its markers aborted.

        CorruptRecordError for a control batch without a marker, InvalidTransactionStateError for data outside of an
        open transaction.
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
        """Each higher epoch began at the first batch that carries it (-1: a format without epochs)."""
        if table.summary.leader_epoch <= self._epoch:
            return
        epochs = table.leader_epoch
        largest_before = np.maximum.accumulate(np.concatenate((np.array([self._epoch], epochs.dtype), epochs[:-1])))
        for row in np.flatnonzero(epochs > largest_before).tolist():
            self._epoch = int(epochs[row])
            self._epochs.append((self._epoch, int(table.base_offset[row])))


def _rebuilt(table: BatchTable, rows: NDArray[np.intp], positions: NDArray[np.int64]) -> BatchTable:
    """Some rows of a table, their bytes elsewhere."""
    columns = {name: getattr(table, name)[rows] for name, _ in COLUMNS}
    return BatchTable.from_columns(columns | {"position": positions}, table.end_position)
