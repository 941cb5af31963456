"""A log's knowledge of a producer: its epoch, its last five batches, its open transaction.

Pure values. Thread rule: the caller holds the partition's lock.
Source: Kafka's ``ProducerStateEntry`` and ``BatchMetadata`` (KIP-98).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tidelog.kernel import last_sequence_of
from tidelog.model import InvalidTransactionStateError
from tidelog.record.attributes import TRANSACTIONAL_FLAG
from tidelog.record.batch_header import MAX_SEQUENCE

BATCHES_TO_RETAIN = 5
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1


class CachedBatch(NamedTuple):
    """A batch of a producer: ``offset_delta`` is last minus first offset, ``timestamp`` is its largest."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The batch's first sequence; sequences wrap around from 2^31 - 1 to 0."""
        if self.last_sequence < self.offset_delta:
            return MAX_SEQUENCE - (self.offset_delta - self.last_sequence) + 1
        return self.last_sequence - self.offset_delta

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class LastRecord(NamedTuple):
    """A producer's last record: the last data offset, or the epoch of its marker if there is no data."""

    last_data_offset: int
    """The last data offset; -1 if this epoch has no data."""
    producer_epoch: int


class ProducerBatch(Protocol):
    """The columns of a batch that matter here; a row of the batch table has them."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def attributes(self) -> int: ...


@dataclass(slots=True, kw_only=True)
class ProducerEntry:
    """A producer; the defaults are those of an unknown producer. Timestamps are in ms."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    transaction_first_offset: int | None = None
    """The first offset of the open transaction."""
    batches: deque[CachedBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_TO_RETAIN))
    """The last batches of this epoch, oldest first."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_record(self) -> LastRecord:
        return LastRecord(self.last_data_offset, self.producer_epoch)

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def add_batch(self, batch: ProducerBatch) -> bool:
        """Add a data batch of any epoch; return True if it begins a transaction.

        A batch of another epoch clears the cached batches. Raise InvalidTransactionStateError if the batch is outside
        the open transaction.
        """
        transactional = bool(batch.attributes & TRANSACTIONAL_FLAG)
        if self.transaction_first_offset is not None and not transactional:
            raise InvalidTransactionStateError(
                f"producer {self.producer_id} has an open transaction since {self.transaction_first_offset} and appends"
                f" outside of it",
                offset=batch.base_offset,
            )
        self.set_epoch(batch.producer_epoch)
        delta = batch.last_offset - batch.base_offset
        last_sequence = last_sequence_of(batch.base_sequence, delta)
        self.batches.append(CachedBatch(last_sequence, batch.last_offset, delta, batch.max_timestamp))
        self.last_timestamp = batch.max_timestamp
        if not transactional or self.transaction_first_offset is not None:
            return False
        self.transaction_first_offset = batch.base_offset
        return True

    def end_transaction(self, *, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> int | None:
        """End the transaction; return its first offset, or None if there was no transaction."""
        first_offset = self.transaction_first_offset
        self.set_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = timestamp
        self.transaction_first_offset = None
        return first_offset

    def set_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def find_duplicate(self, batch: ProducerBatch) -> CachedBatch | None:
        """Return the cached batch with the epoch and exactly the sequences of ``batch``: it is a duplicate."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        last_sequence = last_sequence_of(batch.base_sequence, batch.last_offset - batch.base_offset)
        for cached in self.batches:
            if cached.first_sequence == batch.base_sequence and cached.last_sequence == last_sequence:
                return cached
        return None

    def without_batches(self) -> ProducerEntry:
        return ProducerEntry(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            last_timestamp=self.last_timestamp,
            transaction_first_offset=self.transaction_first_offset,
        )

    def merge(self, later: ProducerEntry) -> None:
        """Apply the changes of an append; the batches stay if the epoch is the same."""
        self.set_epoch(later.producer_epoch)
        self.batches.extend(later.batches)
        self.coordinator_epoch = later.coordinator_epoch
        self.transaction_first_offset = later.transaction_first_offset
        self.last_timestamp = later.last_timestamp
