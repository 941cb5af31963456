"""A transactional id as its coordinator knows it: the newest record of the log, and the one that is to follow.

A ``TransactionRecord`` is a value, what a record of ``__transaction_state`` says. A ``Transaction`` holds the newest
and, while a transition is under way, the one to come; requests that come meanwhile have to wait (the client is told
CONCURRENT_TRANSACTIONS). Which state may follow which:

====================  ==============================================================  =================================
state                 may follow                                                      because of
====================  ==============================================================  =================================
Empty                 Empty, CompleteCommit, CompleteAbort                            InitProducerId
Ongoing               Ongoing, Empty, CompleteCommit, CompleteAbort                   a partition that is added
PrepareCommit         Ongoing                                                         EndTxn
PrepareAbort          Ongoing; with transactions of version 2 Empty, CompleteCommit,  EndTxn, InitProducerId, time-out
                      CompleteAbort too
CompleteCommit        PrepareCommit                                                   all markers are written
CompleteAbort         PrepareAbort                                                    all markers are written
Dead                  Empty, CompleteCommit, CompleteAbort                            the transactional id expired
PrepareEpochFence     Ongoing                                                         passed through within one step
====================  ==============================================================  =================================

A pending completion waits for the markers, the other pending records only for the log. A crash loses what is pending:
the log decides. Pure; thread rule: the broker's loop.
Source: Kafka's ``TransactionMetadata``, ``TxnTransitMetadata``, ``TransactionState`` (4.1; KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tidelog.model import TopicPartition
from tidelog.record.internal.transaction_state import TransactionState

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
MAX_TIMEOUT_MS: Final = 2**31 - 1
"""A transaction with this time-out is never aborted for its age (KIP-939)."""
LAST_EPOCH: Final = 2**15 - 2
"""Of a producer id that a client gets to see: one more is kept, so that whoever has it can be fenced."""
EPOCH_BUMP_VERSION: Final = 2
"""From this ``transaction.version`` on the epoch rises with the end of each transaction (KIP-890)."""

_IDLE: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})

PREVIOUS_STATES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _IDLE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _IDLE,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""The module's table."""


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int


NO_PRODUCER: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)


def bumps_epoch(version: int) -> bool:
    """Whether transactions of this version have an epoch each."""
    return version >= EPOCH_BUMP_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRecord:
    """What the log says of a transactional id; times in ms, -1 for none."""

    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    last_update_ms: int
    start_ms: int = NO_TIME
    partitions: frozenset[TopicPartition] = frozenset()
    """Those of the transaction; once it is decided, those without a marker."""
    client_version: int = 0
    """``transaction.version`` of the client that made the last transition."""
    last_producer_epoch: int = NO_EPOCH
    """Before the last bump; in no record, so a retry that comes after a restart is not recognized (as in Kafka)."""
    previous_producer_id: int = NO_PRODUCER_ID
    """Before this transition."""
    next_producer_id: int = NO_PRODUCER_ID
    """What the producer gets at the end of this transaction, where its epochs are used up."""

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def is_idle(self) -> bool:
        """No transaction is open or being ended."""
        return self.state in _IDLE

    @property
    def is_prepared(self) -> bool:
        """Decided, and not yet complete."""
        return self.state in PREPARED

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH

    def is_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is TransactionState.ONGOING
            and self.timeout_ms != MAX_TIMEOUT_MS
            and self.start_ms + self.timeout_ms < now_ms
        )


@dataclass(slots=True, kw_only=True)
class Transaction:
    """The transitions of one transactional id, one at a time."""

    transactional_id: str
    record: TransactionRecord
    pending: TransactionRecord | None = None
    has_failed_fence: bool = False
    """A fence was not written: its epoch was shown to nobody, the next one may take the same."""

    def begin(self, following: TransactionRecord) -> None:
        """``following`` is on its way into the log. RuntimeError where the table does not have it: a bug."""
        if self.pending is not None:
            raise RuntimeError(
                f"{self._name} is on its way to {self.pending.state.label}, not to {following.state.label}"
            )
        if self.record.state not in PREVIOUS_STATES[following.state]:
            raise RuntimeError(f"{self._name} is {self.record.state.label}, it cannot become {following.state.label}")
        self.pending = following

    def finish(self) -> None:
        """What was pending is in the log."""
        if self.pending is None:
            raise RuntimeError(f"{self._name} has no transition under way")
        self.record, self.pending = self.pending, None
        self.has_failed_fence = False

    def give_up(self) -> None:
        """What was pending did not get into the log."""
        self.pending = None

    def marker_written(self, partition: TopicPartition) -> None:
        """``partition`` has its marker, or needs none any more."""
        if not self.record.is_prepared:
            raise RuntimeError(f"{self._name} is {self.record.state.label}, no marker of it can have been written")
        self.record = replace(self.record, partitions=self.record.partitions - {partition})

    @property
    def _name(self) -> str:
        return f"transactional id {self.transactional_id!r}"
