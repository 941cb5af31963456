"""Does an open transaction hang? The table, and the function that codifies it. Pure.

A transaction hangs if nobody will end it. Only its coordinator ends transactions, so what ``__transaction_state`` says
decides, where it is here:

=======================================================  ======================  ==================================
the coordinators' log                                    silent longer than      verdict
                                                         the limit
=======================================================  ======================  ==================================
has this producer's transaction, with this partition     its own timeout: no     OPEN
the same                                                 its own timeout: yes    OVERDUE: the coordinator aborts it,
                                                                                 once one runs
knows the producer, not in a transaction with this       any                     HANGING
partition
does not know the producer, and was read whole           any                     HANGING
does not know the producer, parts of it are elsewhere    no                      OPEN
(or all of it)
the same                                                 yes                     SUSPECTED
=======================================================  ======================  ==================================

Silent is a transaction since its last timestamp, overdue since it began (as the coordinator counts it). The limit is by
default that of ``transaction.max.timeout.ms``, which no transaction may pass.

Called by: command line, Python. Source: ``kafka-transactions.sh find-hanging`` (KIP-664), which looks at silent ones
only.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tidelog.inspect.coordinator_log import CoordinatorLog, TransactionalId
from tidelog.inspect.transactions import OpenTransaction

HANGING_AFTER_MS = 15 * 60 * 1000
"""Default of ``transaction.max.timeout.ms``."""


class Verdict(enum.StrEnum):
    """See the module's table."""

    OPEN = "open"
    OVERDUE = "overdue"
    SUSPECTED = "suspected"
    HANGING = "hanging"

    @property
    def hangs(self) -> bool:
        """For certain, or as far as can be told."""
        return self in (Verdict.HANGING, Verdict.SUSPECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """``reason`` is a clause for people; ``known``: the producer's transactional id, where its coordinator is here."""

    verdict: Verdict
    reason: str
    known: TransactionalId | None = None


def judge(
    transaction: OpenTransaction, coordinators: CoordinatorLog, *, now_ms: int, hanging_after_ms: int = HANGING_AFTER_MS
) -> Judgement:
    known = coordinators.of_producer(transaction.producer_id)
    if known is not None:
        return _known(transaction, known, now_ms)
    if coordinators.is_whole:
        return Judgement(verdict=Verdict.HANGING, reason="no coordinator knows its producer")
    silent = transaction.last_timestamp is not None and now_ms - transaction.last_timestamp > hanging_after_ms
    return Judgement(
        verdict=Verdict.SUSPECTED if silent else Verdict.OPEN,
        reason="its coordinator's log is not here"
        + (", and it is silent longer than a transaction may last" if silent else ""),
    )


def _known(transaction: OpenTransaction, known: TransactionalId, now_ms: int) -> Judgement:
    if not known.is_to_end(transaction.partition):
        return Judgement(verdict=Verdict.HANGING, reason=_why_not(transaction, known), known=known)
    started = known.start_timestamp
    if known.state == "Ongoing" and started is not None and now_ms - started > known.timeout_ms:
        reason = "past its timeout: its coordinator aborts it once it runs"
        return Judgement(verdict=Verdict.OVERDUE, reason=reason, known=known)
    decided = {"PrepareCommit": "commit", "PrepareAbort": "abort"}.get(known.state)
    reason = f"its coordinator is about to {decided} it" if decided else "its coordinator has it"
    return Judgement(verdict=Verdict.OPEN, reason=reason, known=known)


def _why_not(transaction: OpenTransaction, known: TransactionalId) -> str:
    reason = f"its coordinator has no transaction with this partition: {known.state}"
    if known.partitions:
        reason += " with " + ", ".join(str(partition) for partition in sorted(known.partitions))
    if known.producer_epoch != transaction.producer_epoch:
        reason += f", producer epoch {known.producer_epoch}"
    return reason
