"""The open transactions of several log directories, each with its verdict.

If there are open transactions, the survey reads the coordinators' logs. These are the ``__transaction_state``
partitions in all given directories of one cluster: a broker may have several log directories, and a partition may lie
in any of them.

While an owner runs, a transaction may begin or end between two reads. So the partition of a seemingly hanging
transaction is read again after the coordinators' logs. A coordinator writes all markers before it records the
transaction as finished. The module only reads.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.inspect.coordinator_log import CoordinatorLog, TransactionalId, join_logs, read_coordinator_log
from tidelog.inspect.transactions import OpenTransaction, is_still_open
from tidelog.model import TidelogError
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.log_view import LogView

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


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTransaction:
    transaction: OpenTransaction
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """``coordinators`` holds the log of each directory. It is empty if no transaction is open."""

    transactions: tuple[JudgedTransaction, ...] = ()
    coordinators: tuple[CoordinatorLog, ...] = ()


def survey_transactions(
    fs: FileSystem,
    paths: Sequence[Path],
    transactions: Iterable[OpenTransaction],
    *,
    now_ms: int,
    hanging_after_ms: int = HANGING_AFTER_MS,
    threads: int | None = None,
) -> Survey:
    """Judge the open transactions, in the order given. ``paths`` are the log directories searched for coordinators'
    logs. A transaction that a second read no longer finds open is left out."""
    open_ = list(transactions)
    if not open_:
        return Survey()
    logs = read_coordinator_logs(fs, paths, threads=threads)
    return judge_transactions(fs, logs, open_, now_ms=now_ms, hanging_after_ms=hanging_after_ms)


def judge_transactions(
    fs: FileSystem,
    logs: Mapping[Path, CoordinatorLog],
    transactions: Iterable[OpenTransaction],
    *,
    now_ms: int,
    hanging_after_ms: int = HANGING_AFTER_MS,
) -> Survey:
    """Judge the open transactions like ``survey_transactions``, by coordinators' logs that were read after them."""
    by_directory = {path: _coordinators_of(log, logs.values()) for path, log in logs.items()}

    def judged() -> Iterator[JudgedTransaction]:
        for transaction in transactions:
            judgement = judge(
                transaction,
                by_directory.get(transaction.directory.parent, CoordinatorLog()),
                now_ms=now_ms,
                hanging_after_ms=hanging_after_ms,
            )
            if judgement.verdict is not TransactionVerdict.HANGING or _is_confirmed(fs, transaction):
                yield JudgedTransaction(transaction=transaction, judgement=judgement)

    return Survey(transactions=tuple(judged()), coordinators=tuple(logs.values()))


def read_coordinator_logs(
    fs: FileSystem, paths: Iterable[Path], *, threads: int | None = None, advance: Advance = lambda _bytes: None
) -> dict[Path, CoordinatorLog]:
    """Return the coordinators' log of each log directory. A directory's error is in its log."""
    logs = {}
    for path in paths:
        try:
            logs[path] = read_coordinator_log(fs, path, threads=threads, advance=advance)
        except TidelogError as error:
            logs[path] = CoordinatorLog(errors=(error,))
    return logs


def _coordinators_of(own: CoordinatorLog, logs: Iterable[CoordinatorLog]) -> CoordinatorLog:
    """Return the logs of a directory's cluster, or of the directory alone if it does not name its cluster."""
    if own.cluster_id is None:
        return own
    same = [log for log in logs if log.cluster_id == own.cluster_id]
    return own if len(same) == 1 else join_logs(same)


def _is_confirmed(fs: FileSystem, transaction: OpenTransaction) -> bool:
    view = LogView(fs, transaction.directory)
    return view.condition is not DirectoryCondition.HELD or is_still_open(view, transaction)
