"""The open transactions of several log directories, each with its verdict.

Coordinators are asked where there is anything to ask about: the ``__transaction_state`` partitions of all directories
given that are of one cluster, since a broker may have several log directories, and partitions lie in any of them.

Beside a running owner a transaction may begin or end between two readings. Of one that seems to hang the partition is
read once more, after the coordinators: a coordinator that has finished a transaction wrote all its markers before.

Reads only. Called by: command line, Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.inspect.coordinator_log import CoordinatorLog, join_logs, read_coordinator_log
from tidelog.inspect.transaction_verdict import HANGING_AFTER_MS, Judgement, Verdict, judge
from tidelog.inspect.transactions import OpenTransaction, is_still_open
from tidelog.model import TidelogError
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.directory_state import Condition
from tidelog.storage.log.view.log_view import LogView


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTransaction:
    transaction: OpenTransaction
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """``coordinators``: what was read of each directory; empty where nothing is open."""

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
    """``paths`` are the log directories to look for coordinators in; the order of the transactions is kept."""
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
            if judgement.verdict is not Verdict.HANGING or _is_confirmed(fs, transaction):
                yield JudgedTransaction(transaction=transaction, judgement=judgement)

    return Survey(transactions=tuple(judged()), coordinators=tuple(logs.values()))


def _read(fs: FileSystem, path: Path, threads: int | None) -> CoordinatorLog:
    try:
        return read_coordinator_log(fs, path, threads=threads)
    except TidelogError as error:
        return CoordinatorLog(errors=(error,))


def _coordinators_of(own: CoordinatorLog, logs: Iterable[CoordinatorLog]) -> CoordinatorLog:
    """Of the cluster of a directory; of the directory alone where it does not say its cluster."""
    if own.cluster_id is None:
        return own
    return join_logs(log for log in logs if log.cluster_id == own.cluster_id)


def _is_confirmed(fs: FileSystem, transaction: OpenTransaction) -> bool:
    view = LogView(fs, transaction.directory)
    return view.condition is not Condition.HELD or is_still_open(view, transaction)
