"""What a partition log is, as a list of batches: the model that the state machine holds the engine against.

Nothing here knows of segments, indexes, files or positions. Where the engine may know more or less than a list does
(after a reload a producer's older batches are not remembered, a transaction that ended above the high watermark may no
longer hold it back) the model says so by ``reloaded``. Called by: tests. Thread rule: one thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field

RETAINED = 5


@dataclass(frozen=True, slots=True)
class ModelBatch:
    """Offsets ``first`` to ``last``, both inclusive; -1 where there is no producer."""

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
    """From its first offset to its marker's; None while it is open."""

    producer_id: int
    first: int
    marker: int | None = None
    aborted: bool = False
    settled: bool = False
    """Its marker was below the high watermark once; should that come down again, nothing is held back any more."""


@dataclass(slots=True)
class ModelProducer:
    """What a log remembers of one."""

    epoch: int
    batches: list[ModelBatch] = field(default_factory=list)
    """Of the epoch, oldest first, at most five."""

    @property
    def next_sequence(self) -> int:
        if not self.batches:
            return 0
        last = self.batches[-1]
        return last.sequence + last.last - last.first + 1


class LogModel:
    """Offsets and batches as Kafka's documentation has them: log start <= LSO <= high watermark <= log end."""

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
        """The batches from the one that holds ``start`` on, up to the one that holds ``limit``."""
        return [batch for batch in self.batches if batch.last >= start and batch.last < limit]

    def aborted(self, start: int, end: int) -> set[tuple[int, int, int]]:
        """(producer id, first offset, marker) of aborted transactions with an offset in [start, end)."""
        return {
            (one.producer_id, one.first, one.marker)
            for one in self.transactions
            if one.aborted and one.marker is not None and one.marker >= start and one.first < end
        }

    # --- changing ---

    def settle(self) -> None:
        """After every step."""
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
        """The batch that holds ``offset`` goes with those behind it; what began before stays open again."""
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
        """Producers and transactions after batches were cut from the end."""
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
