"""The open transactions of several log directories, each with its verdict.

If there are open transactions, the survey reads the coordinators' logs. These are the ``__transaction_state``
partitions in all given directories of one cluster: a broker may have several log directories, and a partition may lie
in any of them.

While an owner runs, a transaction may begin or end between two reads. So the partition of a seemingly hanging
transaction is read again after the coordinators' logs. A coordinator writes all markers before it records the
transaction as finished. The module only reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.inspect.coordinator_log import CoordinatorLog, join_logs, read_coordinator_log
from tidelog.inspect.transaction_verdict import HANGING_AFTER_MS, Judgement, TransactionVerdict, judge
from tidelog.inspect.transactions import OpenTransaction, is_still_open
from tidelog.model import TidelogError
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.log_view import LogView


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
    logs = {path: _read(fs, path, threads) for path in paths}

    def judged() -> Iterator[JudgedTransaction]:
        for transaction in open_:
            judgement = judge(
                transaction,
                _coordinators_of(logs.get(transaction.directory.parent, CoordinatorLog()), logs.values()),
                now_ms=now_ms,
                hanging_after_ms=hanging_after_ms,
            )
            if judgement.verdict is not TransactionVerdict.HANGING or _is_confirmed(fs, transaction):
                yield JudgedTransaction(transaction=transaction, judgement=judgement)

    return Survey(transactions=tuple(judged()), coordinators=tuple(logs.values()))


def _read(fs: FileSystem, path: Path, threads: int | None) -> CoordinatorLog:
    try:
        return read_coordinator_log(fs, path, threads=threads)
    except TidelogError as error:
        return CoordinatorLog(errors=(error,))


def _coordinators_of(own: CoordinatorLog, logs: Iterable[CoordinatorLog]) -> CoordinatorLog:
    """Return the logs of a directory's cluster, or of the directory alone if it does not name its cluster."""
    if own.cluster_id is None:
        return own
    return join_logs(log for log in logs if log.cluster_id == own.cluster_id)


def _is_confirmed(fs: FileSystem, transaction: OpenTransaction) -> bool:
    view = LogView(fs, transaction.directory)
    return view.condition is not DirectoryCondition.HELD or is_still_open(view, transaction)
