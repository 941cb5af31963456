"""The producers of a log and their transactions, as of ``map_end_offset``, without I/O and clock.

The log's owner passes in batches and the bytes of snapshots, and writes the result of ``snapshot``. Two ways in:

- ``replay`` takes batches that are in the log already (recovery, loading, a view). It does not check their sequences
  and epochs. It runs over complete batch tables and skips the data batches that do not affect the state.
- ``prepare_update``, ``ProducerAppendInfo``, ``update`` and ``complete`` first check an append, then apply it.

The state is empty when loading begins. A crash loses it; the newest usable snapshot and the later log restore it.
Thread rule: the caller holds the partition's lock. Source: Kafka's ``ProducerStateManager`` (KIP-98, KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernel import BatchTable, continues
from tidelog.model import InvalidProducerEpochError, LogOffsetMetadata
from tidelog.storage.producer.append_info import AppendOrigin, CompletedTransaction, ProducerAppendInfo
from tidelog.storage.producer.entry import ProducerBatch, ProducerEntry
from tidelog.storage.producer.hash_order import JavaHashOrder
from tidelog.storage.producer.marker import MarkerRecord, read_marker
from tidelog.storage.producer.replay_rows import ReplayBatch, first_of_each_producer, relevant_rows, replay_batches
from tidelog.storage.producer.snapshot import format_snapshot, parse_snapshot
from tidelog.storage.producer.transactions import Transactions
from tidelog.storage.producer.verification import NO_GUARD, VerificationGuard, Verifications

if TYPE_CHECKING:
    from typing_extensions import Buffer

PRODUCER_ID_EXPIRATION_MS = 86_400_000
"""The default of ``producer.id.expiration.ms``."""
LATE_TRANSACTION_BUFFER_MS = 300_000
"""The time that a transaction may last beyond the largest timeout before it counts as late."""


class EndedTransaction(NamedTuple):
    """A completed transaction, and the last stable offset after it (for the transaction index)."""

    transaction: CompletedTransaction
    last_stable_offset: int


class ProducerState:
    def __init__(self, *, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        self.expiration_ms = expiration_ms
        self._entries: dict[int, ProducerEntry] = {}
        self._order = JavaHashOrder()
        self._loading: JavaHashOrder | None = None
        self.transactions = Transactions()
        self.verifications = Verifications()
        self.map_end_offset = 0
        """The batches below this offset are in the state."""
        self.last_snapshot_offset = 0

    # --- reading ---

    @property
    def producers(self) -> Mapping[int, ProducerEntry]:
        """The producers by id; callers must not change the entries."""
        return MappingProxyType(self._entries)

    @property
    def is_empty(self) -> bool:
        return not self._entries and not self.transactions.has_unreplicated

    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        return self.transactions.first_unstable_offset()

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return True if this epoch of the producer has a transaction with data and no marker."""
        entry = self._entries.get(producer_id)
        return (
            entry is not None and entry.transaction_first_offset is not None and entry.producer_epoch == producer_epoch
        )

    def has_late_transaction(self, now_ms: int, max_transaction_timeout_ms: int) -> bool:
        """Return True if the first open transaction is long past its timeout: its coordinator did not abort it."""
        first = self.transactions.first_ongoing
        entry = None if first is None else self._entries.get(first.producer_id)
        if entry is None or entry.last_timestamp <= 0:
            return False
        return now_ms - entry.last_timestamp > max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS

    @property
    def needs_snapshot(self) -> bool:
        """True if the state is newer than the last snapshot."""
        return self.map_end_offset > self.last_snapshot_offset

    def snapshot(self) -> bytes:
        """Return the bytes of a snapshot at ``map_end_offset``, equal to Kafka's; then call ``snapshot_taken``."""
        return format_snapshot(self._entries[producer_id] for producer_id in self._order)

    def snapshot_taken(self) -> None:
        self.last_snapshot_offset = self.map_end_offset

    # --- loading ---

    def clear(self) -> None:
        """Forget all producers and transactions; the two offsets stay."""
        self._entries.clear()
        self._order.clear()
        self.transactions.clear()

    def load_snapshot(self, data: bytes, snapshot_offset: int, *, now_ms: int) -> None:
        """Load a snapshot without its expired producers. SnapshotCorruptError leaves the state unchanged."""
        for entry in parse_snapshot(data):
            if not self._is_expired(entry, now_ms):
                self.load_entry(entry)
        self.last_snapshot_offset = self.map_end_offset = snapshot_offset

    def load_entry(self, entry: ProducerEntry) -> None:
        self._add(entry)
        first_offset = entry.transaction_first_offset
        if first_offset is not None:
            self.transactions.begin(entry.producer_id, LogOffsetMetadata(first_offset))

    def start_at(self, offset: int, *, last_snapshot_offset: int = 0) -> None:
        """Start with an empty state at ``offset``."""
        self.clear()
        self.map_end_offset = offset
        self.last_snapshot_offset = last_snapshot_offset

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Count the replays in this block as a single read of Kafka's state reload.

        Kafka collects the producers of each read (a complete segment) in a separate HashMap, and then adds new ones in
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
        """Apply batches of the log, in offset order; ``buffer[0]`` lies at ``base_position`` in the table's positions.

        Return the transactions that ended. Raise CorruptRecordError if a producer's control batch has no marker. Raise
        InvalidTransactionStateError for data outside a producer's open transaction.
        """
        if self._loading is not None:
            for producer_id in first_of_each_producer(table):
                self._loading.compute_if_absent(producer_id)
        ended = []
        view = memoryview(buffer).cast("B")
        for batch in replay_batches(table, relevant_rows(table)):
            entry = self._entries.get(batch.producer_id)
            if entry is None:
                entry = ProducerEntry(producer_id=batch.producer_id)
                self._add(entry)
            if batch.is_control:
                start = batch.position - base_position
                transaction = self._replay_marker(entry, batch, read_marker(view[start : start + batch.size]))
                if transaction is not None:
                    ended.append(transaction)
            elif entry.add_batch(batch):
                self.transactions.begin(batch.producer_id, LogOffsetMetadata(batch.base_offset))
            self.verifications.appended(batch)
        if len(table):
            self.map_end_offset = int(table.last_offset[-1]) + 1
        return ended

    def _replay_marker(
        self, entry: ProducerEntry, batch: ReplayBatch, record: MarkerRecord | None
    ) -> EndedTransaction | None:
        if record is None:
            return None
        marker = record.marker
        first_offset = entry.end_transaction(
            producer_epoch=batch.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=record.timestamp,
        )
        if first_offset is None:
            return None
        completed = CompletedTransaction(batch.producer_id, first_offset, batch.base_offset, not marker.committed)
        return EndedTransaction(completed, self.complete(completed))

    # --- appends ---

    def maybe_start_verification(
        self, producer_id: int, sequence: int, producer_epoch: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard:
        """Return the guard for a transaction's first append, after its coordinator confirms it (KIP-890).

        ``NO_GUARD`` if the transaction has data already. Raise InvalidProducerEpochError for an older epoch.
        """
        entry = self._entries.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            raise InvalidProducerEpochError(
                f"producer {producer_id} has epoch {producer_epoch}, the log knows it at epoch {entry.producer_epoch}"
            )
        if self.has_ongoing_transaction(producer_id, producer_epoch):
            return NO_GUARD
        return self.verifications.maybe_create(
            producer_id, sequence, producer_epoch, supports_epoch_bump=supports_epoch_bump, now_ms=now_ms
        ).guard

    def is_verified(self, batch: ProducerBatch, guard: VerificationGuard) -> bool:
        """Return True if a transactional batch may be appended: its transaction is open, or ``guard`` verifies it."""
        return self.has_ongoing_transaction(batch.producer_id, batch.producer_epoch) or self.verifications.guard(
            batch.producer_id
        ).verify(guard)

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        current = self._entries.get(producer_id) or ProducerEntry(producer_id=producer_id)
        return ProducerAppendInfo(current, origin, self.verifications.get(producer_id))

    def continued(self, batch: ProducerBatch) -> ProducerEntry | None:
        """Return the entry of a client's producer if ``batch`` simply continues it, so that ``add_batch`` is enough.

        The batch must have the same epoch, the next sequence and the same transaction state, and no verification may be
        pending. Return None for any other data batch and for markers.
        """
        entry = self._entries.get(batch.producer_id)
        if entry is None or self.verifications.get(batch.producer_id) is not None:
            return None
        is_next = continues(entry, batch.producer_epoch, batch.base_sequence, batch.attributes)
        return entry if is_next else None

    def update(self, info: ProducerAppendInfo) -> None:
        """Apply the changes of an append; call ``complete`` for its transactions afterwards."""
        if info.ends_verification:
            self.verifications.clear(info.producer_id)
        entry = self._entries.get(info.producer_id)
        if entry is None:
            self._add(info.updated)
        else:
            entry.merge(info.updated)
        for first_offset in info.started:
            self.transactions.begin(info.producer_id, first_offset)

    def complete(self, completed: CompletedTransaction) -> int:
        """End a transaction; return the last stable offset after it."""
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
        """Forget the expired producers without an open transaction; return their number.

        Expired verifications are forgotten too.
        """
        expired = [entry.producer_id for entry in self._entries.values() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._entries[producer_id]
            self._order.remove(producer_id)
        self.verifications.remove_expired(now_ms, self.expiration_ms)
        return len(expired)

    # --- inside ---

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.transaction_first_offset is None and now_ms - entry.last_timestamp >= self.expiration_ms

    def _add(self, entry: ProducerEntry) -> None:
        self._entries[entry.producer_id] = entry
        if self._loading is None:
            self._order.put(entry.producer_id)
