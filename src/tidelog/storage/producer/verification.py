"""Pending verifications of transactions (KIP-890): they keep late batches from opening an unknown transaction.

The first batch of a transaction may arrive late: the transaction has ended, its marker is written, and the batch would
open a transaction without an end. So the appender first gets a guard here, then asks the coordinator if the
transaction is open, and then appends with the guard. A producer has one of these states:

=================  =============================================================  ====================================
state              entered                                                        an append of its transaction
=================  =============================================================  ====================================
*unknown*          at first; after its append, or a marker that ended its         is refused unless one is open already
                   transaction; after the expiration time
*pending*          at a request for a guard; repeated requests get the same one   is accepted with this guard
=================  =============================================================  ====================================

While a verification is pending, the lowest requested sequence must be appended first. Otherwise a later batch could
take the place of an earlier one that waits for a retry, and the earlier one would fail forever.

Pure, in memory. A restart loses the verifications: the batch is refused and the client tries again. The caller passes
the clock's time. Thread rule: the caller holds the partition's lock; any thread may compare guards.
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
        """Return True if ``other`` is this guard; ``NO_GUARD`` verifies nothing, not even itself."""
        return other != NO_GUARD and other == self


NO_GUARD = VerificationGuard(0)
"""The guard of an append without a guard, and the result if no guard is needed."""


@dataclass(slots=True, kw_only=True)
class PendingVerification:
    """One producer's."""

    guard: VerificationGuard
    created_ms: int
    lowest_sequence: int
    producer_epoch: int
    supports_epoch_bump: bool
    """True for transaction version 2, where each transaction begins at a new epoch and so at sequence 0."""

    def add(self, sequence: int, producer_epoch: int) -> None:
        """Add a waiting batch: a newer epoch starts from its own sequence, an older epoch is ignored."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def ends_with(self, batch: ProducerBatch) -> bool:
        """Return True if the append of ``batch`` ends the verification.

        A transactional batch or marker does. But a marker of transaction version 2 carries the next transaction's
        epoch: a verification that already has this epoch belongs to that transaction and stays.
        """
        if not batch.attributes & TRANSACTIONAL_FLAG:
            return False
        is_marker = bool(batch.attributes & CONTROL_FLAG)
        return not (is_marker and self.supports_epoch_bump and batch.producer_epoch == self.producer_epoch)


class Verifications:
    """The pending verifications by producer id."""

    def __init__(self) -> None:
        self._pending: dict[int, PendingVerification] = {}

    def maybe_create(
        self, producer_id: int, sequence: int, producer_epoch: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> PendingVerification:
        """Return the producer's verification, created if missing, after adding this batch."""
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
        """Return the producer's guard, or ``NO_GUARD`` if nothing is pending."""
        pending = self._pending.get(producer_id)
        return NO_GUARD if pending is None else pending.guard

    def clear(self, producer_id: int) -> None:
        self._pending.pop(producer_id, None)

    def appended(self, batch: ProducerBatch) -> None:
        """Forget the verification that ``batch`` ends, now that it is in the log."""
        pending = self._pending.get(batch.producer_id)
        if pending is not None and pending.ends_with(batch):
            del self._pending[batch.producer_id]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forget verifications of this age. A repeated request does not renew one."""
        self._pending = {
            producer_id: pending
            for producer_id, pending in self._pending.items()
            if now_ms - pending.created_ms < expiration_ms
        }
