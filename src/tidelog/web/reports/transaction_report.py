"""The open transactions of all given log directories with their verdicts, and the state of the coordinators.

The report is work of the background: it looks at the producers of every log, and reads ``__transaction_state``. If a
partition has replicas in several directories, the transactions of the chosen one count: a replica that is behind may
lack a marker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.inspect.compare import ChosenReplicas
from tidelog.inspect.coordinator_log import CoordinatorLog, TransactionalId
from tidelog.inspect.transaction_survey import JudgedTransaction, judge_transactions, read_coordinator_logs
from tidelog.inspect.transactions import PartitionTransactions, open_transactions
from tidelog.model import CancelledError, TidelogError
from tidelog.storage.fs import BY_PATH
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.web.jobs import LIVE_AGE_MS, Finished, JobProgress
from tidelog.web.reports.internal_logs import choose
from tidelog.web.request import PageRequest
from tidelog.web.sources import LogDir, Sources


@dataclass(frozen=True, slots=True)
class KnownId:
    """A transactional id, with the key of the log directory that has its newest record."""

    key: str
    known: TransactionalId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionReport:
    transactions: Sequence[JudgedTransaction] = ()
    elsewhere: int = 0
    """Transactions that are open only in replicas that were not chosen."""
    logs: int = 0
    """The number of logs that were looked at."""
    unread: Sequence[PartitionTransactions] = ()
    """The logs whose transactions are not known, each with its error."""
    coordinators: Mapping[str, CoordinatorLog] = field(default_factory=dict)
    """The coordinators' log of each directory by its key."""
    ids: Sequence[KnownId] = ()
    """All transactional ids, sorted by name."""
    replicas: ChosenReplicas = field(default_factory=ChosenReplicas)
    errors: Sequence[TidelogError] = ()

    def notes(self) -> Iterator[str]:
        """Yield sentences about everything that could not be read, and about the choice of replicas."""
        hanging = sum(judged.judgement.verdict.hangs for judged in self.transactions)
        if hanging:
            yield f"{hanging:,} transactions hang, or are suspected to: no coordinator will end them."
        if self.elsewhere:
            yield (
                f"{self.elsewhere:,} transactions are open only in replicas that are not the leader's: they lack the"
                " marker. They are not listed."
            )
        yield from self.replicas.notes("read")
        if not any(log.partitions or log.errors for log in self.coordinators.values()):
            yield "No partition of __transaction_state is here, so only the logs tell about transactions."
        undecoded = sum(log.undecoded for log in self.coordinators.values())
        if undecoded:
            yield f"{undecoded:,} records of __transaction_state could not be decoded."
        for error in (*(error for log in self.coordinators.values() for error in log.errors), *self.errors):
            yield f"Error: {error}."


def report_of(request: PageRequest, hanging_after_ms: int) -> Finished[TransactionReport]:
    """Return the report. Verdicts depend on the time, so it ages. Raise StillRunningError."""
    names = tuple((one.key, one.state().condition, tuple(one.partitions())) for one in request.sources.log_dirs)
    return request.job(
        ("transactions", hanging_after_ms),
        lambda progress: make_report(request.sources, request.now_ms, hanging_after_ms, progress),
        title="looking for open transactions",
        signature=names,
        is_repeatable=True,
        max_age_ms=LIVE_AGE_MS,
    )


def make_report(sources: Sources, now_ms: int, hanging_after_ms: int, progress: JobProgress) -> TransactionReport:
    """Look for transactions. Errors of logs and directories are in the report."""
    errors: list[TidelogError] = []
    found: dict[str, list[PartitionTransactions]] = {}
    for one in sources.log_dirs:
        try:
            found[one.key] = open_transactions(one.fs, one.path, advance=progress.advance)
        except CancelledError:
            raise
        except TidelogError as error:
            errors.append(error)
    progress.advance(0)  # a cancelled search must not become a report
    candidates = {part.partition for parts in found.values() for part in parts if part.open}
    replicas = choose(sources, {one.key: candidates & set(one.partitions()) for one in sources.log_dirs})
    paths = {one.key: one.path for one in sources.log_dirs}
    open_ = [(paths[key], transaction) for key, parts in found.items() for part in parts for transaction in part.open]
    chosen = [transaction for path, transaction in open_ if replicas.is_chosen(path, transaction.partition)]
    # The coordinators' logs are read after the transactions: see ``transaction_survey``.
    logs = read_coordinator_logs(BY_PATH, paths.values(), advance=progress.advance)
    progress.advance(0)
    survey = judge_transactions(BY_PATH, logs, chosen, now_ms=now_ms, hanging_after_ms=hanging_after_ms)
    known = {(one.partition, one.producer_id, one.start_offset) for one in chosen}
    others = {(one.partition, one.producer_id, one.start_offset) for _, one in open_}
    coordinators = {one.key: logs[one.path] for one in sources.log_dirs}
    return TransactionReport(
        transactions=survey.transactions,
        elsewhere=len(others - known),
        logs=sum(map(len, found.values())),
        unread=[part for parts in found.values() for part in parts if part.error is not None],
        coordinators=coordinators,
        ids=_newest(coordinators),
        replicas=replicas,
        errors=errors,
    )


def _newest(coordinators: Mapping[str, CoordinatorLog]) -> list[KnownId]:
    """Return the newest record of each transactional id of each cluster."""
    newest: dict[tuple[str | None, str], KnownId] = {}
    for key, log in coordinators.items():
        for known in log.ids:
            where = (key if log.cluster_id is None else log.cluster_id, known.name)
            before = newest.get(where)
            if before is None or before.known.source_offset < known.source_offset:
                newest[where] = KnownId(key, known)
    return sorted(newest.values(), key=lambda one: (one.known.name, one.key))


def key_of(sources: Sources, directory: Path) -> str | None:
    """Return the key of the log directory that has a partition's directory."""
    return next((one.key for one in sources.log_dirs if one.path == directory.parent), None)


def is_held(log_dir: LogDir) -> bool:
    return log_dir.state().condition is DirectoryCondition.HELD
