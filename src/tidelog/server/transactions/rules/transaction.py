"""A transactional id in its coordinator's memory: the newest record of the log, and the next one.

A ``Transaction`` holds the newest ``TransactionRecord`` and, during a transition, the pending one. Requests that come
meanwhile fail with CONCURRENT_TRANSACTIONS, and the client retries. Valid transitions:

====================  ==============================================================  =================================
state                 possible previous states                                        cause
====================  ==============================================================  =================================
Empty                 Empty, CompleteCommit, CompleteAbort                            InitProducerId
Ongoing               Ongoing, Empty, CompleteCommit, CompleteAbort                   an added partition
PrepareCommit         Ongoing                                                         EndTxn
PrepareAbort          Ongoing; with transactions of version 2 Empty, CompleteCommit,  EndTxn, InitProducerId, timeout
                      CompleteAbort too
CompleteCommit        PrepareCommit                                                   all markers are written
CompleteAbort         PrepareAbort                                                    all markers are written
Dead                  Empty, CompleteCommit, CompleteAbort                            the transactional id expired
PrepareEpochFence     Ongoing                                                         a transient state within one step
====================  ==============================================================  =================================

A pending completion waits for the markers, other pending records wait only for the log. A crash loses pending records:
the log decides. Pure. Thread rule: the event loop only.
Source: Kafka's ``TransactionMetadata``, ``TxnTransitMetadata``, ``TransactionState``; KIP-98, KIP-360, KIP-890 (4.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tidelog.model import TopicPartition
from tidelog.record.internal_records.transaction_record import TransactionRecord, TransactionState

EPOCH_BUMP_VERSION: Final = 2
"""The first ``transaction.version`` that raises the epoch at the end of each transaction (KIP-890)."""

_IDLE: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

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
"""The previous states in the module's table."""


def bumps_epoch(version: int) -> bool:
    """Return True if each transaction of this version has its own epoch."""
    return version >= EPOCH_BUMP_VERSION


@dataclass(slots=True, kw_only=True)
class Transaction:
    """The transitions of one transactional id, one at a time."""

    transactional_id: str
    record: TransactionRecord
    pending: TransactionRecord | None = None
    has_failed_fence: bool = False
    """True if a fence was not written. No client saw its epoch, so the next fence may use the same one."""

    def begin(self, next_record: TransactionRecord) -> None:
        """Begin the transition to ``next_record``. Raise RuntimeError (a bug) if the table forbids it."""
        if self.pending is not None:
            raise RuntimeError(
                f"{self._name} has a pending transition to {self.pending.state.label}, not to {next_record.state.label}"
            )
        if self.record.state not in PREVIOUS_STATES[next_record.state]:
            raise RuntimeError(
                f"{self._name} is {self.record.state.label}, and cannot become {next_record.state.label}"
            )
        self.pending = next_record

    def finish(self) -> None:
        """Make the pending record the current one: it is in the log."""
        if self.pending is None:
            raise RuntimeError(f"{self._name} has no pending transition")
        self.record, self.pending = self.pending, None
        self.has_failed_fence = False

    def discard_pending(self) -> None:
        """Discard the pending record: it is not in the log."""
        self.pending = None

    def marker_written(self, partition: TopicPartition) -> None:
        """Remove ``partition``, which has its marker or no longer needs one."""
        if not self.record.is_prepared:
            raise RuntimeError(f"{self._name} is {self.record.state.label}, so it has no markers to write")
        self.record = replace(self.record, partitions=self.record.partitions - {partition})

    @property
    def _name(self) -> str:
        return f"transactional id {self.transactional_id!r}"
