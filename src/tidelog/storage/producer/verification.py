"""Pending verifications of transactions (KIP-890): no record joins a transaction that its coordinator does not know.

A producer's first batch of a transaction may be late: the transaction ended, its marker is written, and the batch would
begin one that nobody ends. So whoever hands the log such a batch first asks here for a guard, then asks the coordinator
whether the transaction is open, then appends with the guard. States of a producer in the table:

=================  =============================================================  ====================================
state              becomes it                                                     an append of its transaction
=================  =============================================================  ====================================
*unknown*          in the beginning; when it appended, or a marker ended its      is refused unless one is open already
                   transaction; when it waited too long
*pending*          when a guard is asked for, and the same guard is given again   is taken with this guard
=================  =============================================================  ====================================

While it is pending the lowest sequence asked for has to come first: else a batch that waits for another try would find
a later one in its place, for ever.

Pure, in memory, gone after a restart (the batch is then refused, the client tries again). The clock is the caller's.
Called by: the producer state. Thread rule: under the partition's lock; guards may be compared anywhere.
Source: Kafka's ``VerificationGuard``, ``VerificationStateEntry`` and ``ProducerStateManager`` (4.1).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from tidelog.record.attributes import CONTROL_FLAG, TRANSACTIONAL_FLAG
from tidelog.storage.producer.entry import ProducerBatch

_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class VerificationGuard:
    """Stands for one attempt to verify one transaction; equal to no other."""

    number: int = field(default_factory=_NUMBERS.__next__)

    def verify(self, other: VerificationGuard) -> bool:
        """Whether ``other`` is this guard; ``NO_GUARD`` verifies nothing, not even itself."""
        return other != NO_GUARD and other == self


NO_GUARD = VerificationGuard(0)
"""What an append without a guard has, and what is answered where none is needed."""


@dataclass(slots=True, kw_only=True)
class PendingVerification:
    """One producer's."""

    guard: VerificationGuard
    created_ms: int
    lowest_sequence: int
    producer_epoch: int
    supports_epoch_bump: bool
    """Of a producer with transactions of version 2, which begins each at a new epoch and so at sequence 0."""

    def add(self, sequence: int, producer_epoch: int) -> None:
        """One more batch waits: a newer epoch counts from its own sequence, an older one does not count."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def ends_with(self, batch: ProducerBatch) -> bool:
        """Whether nothing is pending any more once ``batch`` is appended.

        It is part of a transaction, or ends one; but a marker of transactions of version 2 carries the epoch of the
        next one, and a verification that already has that epoch is for the next one.
        """
        if not batch.attributes & TRANSACTIONAL_FLAG:
            return False
        is_marker = bool(batch.attributes & CONTROL_FLAG)
        return not (is_marker and self.supports_epoch_bump and batch.producer_epoch == self.producer_epoch)


class Verifications:
    """By producer id."""

    def __init__(self) -> None:
        self._pending: dict[int, PendingVerification] = {}

    def maybe_create(
        self, producer_id: int, sequence: int, producer_epoch: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> PendingVerification:
        """The producer's, made if there is none, with this batch added."""
        pending = self._pending.get(producer_id)
        if pending is None:
            pending = self._pending[producer_id] = PendingVerification(
                guard=VerificationGuard(),
                created_ms=now_ms,
                lowest_sequence=sequence,
                producer_epoch=producer_epoch,
                supports_epoch_bump=supports_epoch_bump,
            )
        pending.add(sequence, producer_epoch)
        return pending

    def get(self, producer_id: int) -> PendingVerification | None:
        return self._pending.get(producer_id)

    def guard(self, producer_id: int) -> VerificationGuard:
        """``NO_GUARD`` where nothing is pending."""
        pending = self._pending.get(producer_id)
        return NO_GUARD if pending is None else pending.guard

    def clear(self, producer_id: int) -> None:
        self._pending.pop(producer_id, None)

    def appended(self, batch: ProducerBatch) -> None:
        """Forget what is no longer pending once ``batch`` is in the log."""
        pending = self._pending.get(batch.producer_id)
        if pending is not None and pending.ends_with(batch):
            del self._pending[batch.producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forget those that were made so long ago; asking again does not make one younger."""
        self._pending = {
            producer_id: pending
            for producer_id, pending in self._pending.items()
            if now_ms - pending.created_ms < expiration_ms
        }
