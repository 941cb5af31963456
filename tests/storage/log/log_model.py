"""A model of a partition log, a list of batches, with which the state machine compares the engine.

The model has no segments, indexes, files or positions. ``reloaded`` marks states in which the engine may know more or
less than a list does. After a reload it forgets a producer's older batches. A transaction that ended above the high
watermark may no longer limit the LSO. Thread rule: one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field

RETAINED = 5


@dataclass(frozen=True, slots=True)
class ModelBatch:
    """Offsets ``first`` to ``last``, both inclusive. The producer fields are -1 without a producer."""

    first: int
    last: int
    epoch: int
    data: bytes
    max_timestamp: int
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    control: bool = False


@dataclass(slots=True)
class ModelTransaction:
    """A transaction from its first offset to its marker, which is None while it is open."""

    producer_id: int
    first: int
    marker: int | None = None
    aborted: bool = False
    settled: bool = False
    """The marker was once below the high watermark. Even if that falls, it no longer limits the LSO."""


@dataclass(slots=True)
class ModelProducer:
    """The log's state of one producer."""

    epoch: int
    batches: list[ModelBatch] = field(default_factory=list)
    """The last batches of the epoch, oldest first, at most five."""

    @property
    def next_sequence(self) -> int:
        if not self.batches:
            return 0
        last = self.batches[-1]
        return last.sequence + last.last - last.first + 1


class LogModel:
    """Offsets and batches as in Kafka: log start <= LSO <= high watermark <= log end."""

    def __init__(self) -> None:
        self.batches: list[ModelBatch] = []
        self.log_start = 0
        self.log_end = 0
        self.high_watermark = 0
        self.transactions: list[ModelTransaction] = []
        self.producers: dict[int, ModelProducer] = {}
        self.reloaded = False

    # --- reading ---

    @property
    def last_stable(self) -> int:
        holding = [transaction.first for transaction in self.transactions if not transaction.settled]
        return min([self.high_watermark, *(max(first, self.log_start) for first in holding)])

    @property
    def first_open(self) -> int | None:
        return min((one.first for one in self.transactions if one.marker is None), default=None)

    def readable(self, start: int, limit: int) -> list[ModelBatch]:
        """Return the batches that end at or after ``start`` and before ``limit``."""
        return [batch for batch in self.batches if batch.last >= start and batch.last < limit]

    def aborted(self, start: int, end: int) -> set[tuple[int, int, int]]:
        """Return (producer id, first offset, marker) of aborted transactions with an offset in [start, end)."""
        return {
            (one.producer_id, one.first, one.marker)
            for one in self.transactions
            if one.aborted and one.marker is not None and one.marker >= start and one.first < end
        }

    # --- changing ---

    def settle(self) -> None:
        """Update ``settled``. Call this after every step."""
        for transaction in self.transactions:
            if transaction.marker is not None and transaction.marker < self.high_watermark:
                transaction.settled = True

    def append(self, batch: ModelBatch) -> None:
        self.batches.append(batch)
        self.log_end = batch.last + 1
        if batch.producer_id < 0:
            return
        known = self.producers.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            known = self.producers[batch.producer_id] = ModelProducer(batch.producer_epoch)
        if batch.control:
            return
        known.batches = [*known.batches, batch][-RETAINED:]
        if batch.transactional and self.open_transaction(batch.producer_id) is None:
            self.transactions.append(ModelTransaction(batch.producer_id, batch.first))

    def end_transaction(self, marker: ModelBatch, *, aborted: bool) -> None:
        self.append(marker)
        transaction = self.open_transaction(marker.producer_id)
        if transaction is not None:
            transaction.marker, transaction.aborted = marker.first, aborted

    def open_transaction(self, producer_id: int) -> ModelTransaction | None:
        return next((one for one in self.transactions if one.producer_id == producer_id and one.marker is None), None)

    def truncate(self, offset: int) -> None:
        """Remove the batch that holds ``offset`` and all later ones. A transaction that ended in them is open again."""
        if offset >= self.log_end:
            return
        self.batches = [batch for batch in self.batches if batch.last < offset]
        self.log_end = offset
        self.log_start = min(self.log_start, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self._look_again()

    def begin_at(self, offset: int, log_start: int) -> None:
        self.batches, self.transactions, self.producers = [], [], {}
        self.log_start, self.log_end, self.high_watermark = log_start, offset, offset

    def delete_below(self, offset: int) -> None:
        self.log_start = max(self.log_start, offset)
        self.batches = [batch for batch in self.batches if batch.last >= self.log_start]
        self.transactions = [one for one in self.transactions if one.marker is None or one.marker >= self.log_start]

    def _look_again(self) -> None:
        """Update transactions after a truncation. ``producers`` stay unchanged, so the model counts as reloaded."""
        first_offsets = {batch.first for batch in self.batches}
        kept = []
        for one in self.transactions:
            if one.first >= self.log_end or (one.first >= self.log_start and one.first not in first_offsets):
                continue
            if one.marker is not None and one.marker >= self.log_end:
                one.marker, one.aborted, one.settled = None, False, False
            kept.append(one)
        self.transactions = kept
        self.reloaded = True
