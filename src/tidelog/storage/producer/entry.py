"""What a log knows of one producer: its epoch, its last five batches, its open transaction.

Pure values; changed under the partition's lock. Called by: the producer state, snapshots, append checks, reports.
Source: Kafka's ``ProducerStateEntry`` and ``BatchMetadata`` (KIP-98).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tidelog.model import InvalidTransactionStateError
from tidelog.record.attributes import TRANSACTIONAL_FLAG

BATCHES_TO_RETAIN = 5
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
_MAX_SEQUENCE = 2**31 - 1


class CachedBatch(NamedTuple):
    """A batch a producer wrote; ``offset_delta`` is its last offset minus its first, ``timestamp`` its largest."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequences go around from 2^31 - 1 to 0."""
        if self.last_sequence < self.offset_delta:
            return _MAX_SEQUENCE - (self.offset_delta - self.last_sequence) + 1
        return self.last_sequence - self.offset_delta

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class LastRecord(NamedTuple):
    """What says of a producer where it was: its last data, or the marker of its epoch where that is all there is."""

    last_data_offset: int
    """-1: none in this epoch."""
    producer_epoch: int


class ProducerBatch(Protocol):
    """The columns of a batch that matter here; a row of the batch table is one."""

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
    """One producer; the defaults are those of a producer nothing is known of. Timestamps in milliseconds."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    transaction_first_offset: int | None = None
    """First offset of the open transaction."""
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
        """A data batch of any epoch; whether it begins a transaction.

        One of another epoch forgets the batches of the epoch before. InvalidTransactionStateError if it is not part of
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
        """Its first offset, None if there was none."""
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
        """The cached batch of the same epoch with exactly the sequences of ``batch``: it was appended before."""
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
        """Take over what an append changed; the batches of the same epoch stay."""
        self.set_epoch(later.producer_epoch)
        self.batches.extend(later.batches)
        self.coordinator_epoch = later.coordinator_epoch
        self.transaction_first_offset = later.transaction_first_offset
        self.last_timestamp = later.last_timestamp


def last_sequence_of(base_sequence: int, delta: int) -> int:
    """The sequence ``delta`` records after ``base_sequence``; -1 where there are no sequences."""
    if base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    if base_sequence > _MAX_SEQUENCE - delta:
        return delta - (_MAX_SEQUENCE - base_sequence) - 1
    return base_sequence + delta


def next_sequence(last_sequence: int) -> int:
    """The one after ``last_sequence``, which may be the largest."""
    return 0 if last_sequence == _MAX_SEQUENCE else last_sequence + 1
