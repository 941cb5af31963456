"""The producers of one log and their transactions, as of ``map_end_offset``. Pure: no I/O, no clock.

Whoever owns the log hands in snapshots' bytes and batches, and writes what ``snapshot`` returns. Two ways in:

- ``replay``: batches that are in the log already (recovery, loading, a view). Not checked against sequences or epochs.
  Runs over whole batch tables; of a producer's many batches only those are looked at that leave a trace.
- ``prepare_update``, ``ProducerAppendInfo``, ``update``, ``complete``: an append, checked first, then taken over.

Empty when loading begins. A crash loses it all; it is rebuilt from the newest usable snapshot and the log after it.
Thread rule: under the partition's lock. Source: Kafka's ``ProducerStateManager`` (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.kernel import BatchRow, BatchTable
from tidelog.model import LogOffsetMetadata
from tidelog.storage.producer.append_info import CompletedTransaction, ProducerAppendInfo
from tidelog.storage.producer.append_origin import AppendOrigin
from tidelog.storage.producer.entry import BATCHES_TO_RETAIN, ProducerEntry
from tidelog.storage.producer.hash_order import JavaHashOrder
from tidelog.storage.producer.marker import MarkerRecord, read_marker
from tidelog.storage.producer.snapshot import format_snapshot, parse_snapshot
from tidelog.storage.producer.transactions import Transactions

if TYPE_CHECKING:
    from typing_extensions import Buffer

PRODUCER_ID_EXPIRATION_MS = 86_400_000
"""Default of ``producer.id.expiration.ms``."""


class EndedTransaction(NamedTuple):
    """A completed transaction and the log's last stable offset once it is over (for the transaction index)."""

    transaction: CompletedTransaction
    last_stable_offset: int


class ProducerState:
    def __init__(self, *, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        self._expiration_ms = expiration_ms
        self._entries: dict[int, ProducerEntry] = {}
        self._order = JavaHashOrder()
        self._loading: JavaHashOrder | None = None
        self.transactions = Transactions()
        self.map_end_offset = 0
        """The batches below this offset are in the state."""
        self.last_snapshot_offset = 0

    # --- reading ---

    @property
    def producers(self) -> Mapping[int, ProducerEntry]:
        """By producer id; do not change the entries."""
        return MappingProxyType(self._entries)

    @property
    def is_empty(self) -> bool:
        return not self._entries and not self.transactions.has_unreplicated

    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        return self.transactions.first_unstable_offset()

    @property
    def needs_snapshot(self) -> bool:
        """Whether the state is newer than the last snapshot."""
        return self.map_end_offset > self.last_snapshot_offset

    def snapshot(self) -> bytes:
        """The bytes of a snapshot at ``map_end_offset``, equal to Kafka's; note it with ``snapshot_taken``."""
        return format_snapshot(self._entries[producer_id] for producer_id in self._order)

    def snapshot_taken(self) -> None:
        self.last_snapshot_offset = self.map_end_offset

    # --- loading ---

    def clear(self) -> None:
        """Forget all producers and transactions; the two offsets stay."""
        self._entries.clear()
        self._order.clear()
        self.transactions.clear()

    def load_snapshot(self, data: bytes, snapshot_offset: int, *, now_ms: int, path: Path | None = None) -> None:
        """Take over a snapshot, without its expired producers. SnapshotCorruptError leaves the state as it is."""
        for entry in parse_snapshot(data, path=path):
            if not self._is_expired(entry, now_ms):
                self.load_entry(entry)
        self.last_snapshot_offset = self.map_end_offset = snapshot_offset

    def load_entry(self, entry: ProducerEntry) -> None:
        self._add(entry)
        first_offset = entry.transaction_first_offset
        if first_offset is not None:
            self.transactions.begin(entry.producer_id, LogOffsetMetadata(first_offset))

    def start_at(self, offset: int, *, last_snapshot_offset: int = 0) -> None:
        """Begin empty at ``offset``."""
        self.clear()
        self.map_end_offset = offset
        self.last_snapshot_offset = last_snapshot_offset

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Replays in this block count as one read of Kafka's when it reloads its state.

        Kafka gathers the producers of such a read (one of a whole segment) in a HashMap of its own and adds new ones in
        that map's order. Only the order of the entries in a snapshot depends on it.
        """
        gathered = self._loading = JavaHashOrder()
        try:
            yield
        finally:
            self._loading = None
            for producer_id in gathered:
                self._order.put(producer_id)

    # --- batches of the log ---

    def replay(self, buffer: Buffer, table: BatchTable, *, base_position: int = 0) -> list[EndedTransaction]:
        """Take in batches of the log, in order; ``buffer[0]`` lies at ``base_position`` of the table's positions.

        Gives the transactions that ended. CorruptRecordError for a control batch of a producer without a marker in it,
        InvalidTransactionStateError for data outside of a producer's open transaction.
        """
        ended: list[EndedTransaction] = []
        rows = np.flatnonzero(table.producer_id >= 0)
        markers = rows[table.is_control[rows]]
        done = 0
        for row, until in zip(markers.tolist(), np.searchsorted(rows, markers).tolist(), strict=True):
            self._replay_data(table, rows[done:until])
            done = until + 1
            batch = table.row(row)
            start = batch.position - base_position
            record = read_marker(memoryview(buffer).cast("B")[start : start + batch.size])
            transaction = self._replay_marker(batch, record)
            if transaction is not None:
                ended.append(transaction)
        self._replay_data(table, rows[done:])
        if len(table):
            self.map_end_offset = int(table.last_offset[-1]) + 1
        return ended

    def _replay_marker(self, batch: BatchRow, record: MarkerRecord | None) -> EndedTransaction | None:
        self._meet(batch.producer_id)
        info = self.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
        completed = info.append_marker(batch, record)
        self.update(info)
        if completed is None:
            return None
        return EndedTransaction(completed, self.complete(completed))

    def _replay_data(self, table: BatchTable, rows: NDArray[np.intp]) -> None:
        """Data batches without a marker between them, producer by producer in the order they appear."""
        if not len(rows):
            return
        ids, first, inverse, counts = np.unique(
            table.producer_id[rows], return_index=True, return_inverse=True, return_counts=True
        )
        by_producer = rows[np.argsort(inverse, kind="stable")]
        ends = np.cumsum(counts)
        for number in np.argsort(first).tolist():
            self._meet(int(ids[number]))
            self._replay_producer(table, by_producer[ends[number] - counts[number] : ends[number]])
        self._meet(int(table.producer_id[rows[-1]]))

    def _replay_producer(self, table: BatchTable, rows: NDArray[np.intp]) -> None:
        """Of many batches of one producer only the last five leave a trace, and the first, if it begins a transaction.

        Not so where transactional and other batches mix: there each is looked at.
        """
        transactional = table.is_transactional[rows]
        if len(rows) > BATCHES_TO_RETAIN + 1 and (transactional.all() or not transactional.any()):
            rows = np.concatenate([rows[:1], rows[-BATCHES_TO_RETAIN:]])
        info = self.prepare_update(int(table.producer_id[rows[0]]), AppendOrigin.REPLICATION)
        for row in rows.tolist():
            info.append_data(table.row(row))
        self.update(info)

    # --- appends ---

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        return ProducerAppendInfo(self._entries.get(producer_id) or ProducerEntry(producer_id=producer_id), origin)

    def update(self, info: ProducerAppendInfo) -> None:
        """Take over what an append changes; ``complete`` its transactions afterwards."""
        entry = self._entries.get(info.producer_id)
        if entry is None:
            self._add(info.updated)
        else:
            entry.merge(info.updated)
        for first_offset in info.started:
            self.transactions.begin(info.producer_id, first_offset)

    def complete(self, completed: CompletedTransaction) -> int:
        """End a transaction; the last stable offset once it is over."""
        last_stable_offset = self.transactions.last_stable_offset(completed)
        self.transactions.complete(completed)
        return last_stable_offset

    # --- the log's other offsets ---

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        self.transactions.drop_unreplicated(high_watermark)

    def on_log_start_offset_incremented(self, log_start_offset: int, latest_snapshot_offset: int | None) -> None:
        self.transactions.drop_unreplicated(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        self.last_snapshot_offset = log_start_offset if latest_snapshot_offset is None else latest_snapshot_offset

    def remove_expired(self, now_ms: int) -> int:
        """Forget the producers without an open transaction that have been silent too long; how many they were."""
        expired = [entry.producer_id for entry in self._entries.values() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._entries[producer_id]
            self._order.remove(producer_id)
        return len(expired)

    # --- inside ---

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.transaction_first_offset is None and now_ms - entry.last_timestamp >= self._expiration_ms

    def _add(self, entry: ProducerEntry) -> None:
        self._entries[entry.producer_id] = entry
        if self._loading is None:
            self._order.put(entry.producer_id)

    def _meet(self, producer_id: int) -> None:
        if self._loading is not None:
            self._loading.compute_if_absent(producer_id)
