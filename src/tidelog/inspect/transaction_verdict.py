"""The decision whether an open transaction hangs: the table, and the function that codifies it.

A transaction hangs if nothing will end it. Only its coordinator ends a transaction, so ``__transaction_state`` decides
if it is available:

=======================================================  ======================  ==================================
the coordinators' log                                    silent longer than      verdict
                                                         the limit
=======================================================  ======================  ==================================
has this producer's transaction, with this partition     its own timeout: no     OPEN
the same                                                 its own timeout: yes    OVERDUE: the coordinator aborts it,
                                                                                 once one runs
knows the producer, not in a transaction with this       any                     HANGING
partition
does not know the producer, and was read completely      any                     HANGING
does not know the producer, and some or all of its       no                      OPEN
partitions are missing here
the same                                                 yes                     SUSPECTED
=======================================================  ======================  ==================================

A transaction is silent since its last timestamp. It is overdue by the time since its start, as the coordinator counts,
and only in the state Ongoing. The default limit is that of ``transaction.max.timeout.ms``, which no transaction may
exceed. The functions are pure. Source: ``kafka-transactions.sh find-hanging`` (KIP-664), which considers only silent
transactions.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tidelog.inspect.coordinator_log import CoordinatorLog, TransactionalId
from tidelog.inspect.transactions import OpenTransaction

HANGING_AFTER_MS = 15 * 60 * 1000
"""The default of ``transaction.max.timeout.ms``."""


class TransactionVerdict(enum.StrEnum):
    """The verdicts of the module's table."""

    OPEN = "open"
    OVERDUE = "overdue"
    SUSPECTED = "suspected"
    HANGING = "hanging"

    @property
    def hangs(self) -> bool:
        """True if the transaction hangs, or is suspected to hang."""
        return self in (TransactionVerdict.HANGING, TransactionVerdict.SUSPECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """``reason`` is a clause for users. ``known`` is the producer's transactional id if its coordinator has it."""

    verdict: TransactionVerdict
    reason: str
    known: TransactionalId | None = None


def judge(
    transaction: OpenTransaction, coordinators: CoordinatorLog, *, now_ms: int, hanging_after_ms: int = HANGING_AFTER_MS
) -> Judgement:
    known = coordinators.of_producer(transaction.producer_id)
    if known is not None:
        return _known(transaction, known, now_ms)
    if coordinators.is_whole:
        return Judgement(verdict=TransactionVerdict.HANGING, reason="no coordinator knows its producer")
    silent = transaction.last_timestamp is not None and now_ms - transaction.last_timestamp > hanging_after_ms
    return Judgement(
        verdict=TransactionVerdict.SUSPECTED if silent else TransactionVerdict.OPEN,
        reason="its coordinator's log is not here"
        + (", and it is silent longer than a transaction may last" if silent else ""),
    )


def _known(transaction: OpenTransaction, known: TransactionalId, now_ms: int) -> Judgement:
    if not known.awaits_marker(transaction.partition):
        return Judgement(verdict=TransactionVerdict.HANGING, reason=_why_not(transaction, known), known=known)
    started = known.start_timestamp
    if known.state == "Ongoing" and started is not None and now_ms - started > known.timeout_ms:
        reason = "past its timeout: its coordinator aborts it as soon as that coordinator runs"
        return Judgement(verdict=TransactionVerdict.OVERDUE, reason=reason, known=known)
    decided = {"PrepareCommit": "commit", "PrepareAbort": "abort"}.get(known.state)
    reason = f"its coordinator is about to {decided} it" if decided else "its coordinator knows it"
    return Judgement(verdict=TransactionVerdict.OPEN, reason=reason, known=known)


def _why_not(transaction: OpenTransaction, known: TransactionalId) -> str:
    reason = f"its coordinator has no transaction with this partition: {known.state}"
    if known.partitions:
        reason += " with " + ", ".join(str(partition) for partition in sorted(known.partitions))
    if known.producer_epoch != transaction.producer_epoch:
        reason += f", producer epoch {known.producer_epoch}"
    return reason
