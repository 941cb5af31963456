"""The open transactions of all given log directories with their verdicts, and the state of the coordinators.

The report is work of the background: it looks at the producers of every log, and reads ``__transaction_state``. If a
partition has replicas in several directories, the transactions of the chosen one count: a replica that is behind may
lack a marker.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import Path
from typing import Final

from tidelog.inspect.compare import ChosenReplicas
from tidelog.inspect.coordinator_log import CoordinatorLog, TransactionalId
from tidelog.inspect.transaction_survey import JudgedTransaction, judge_transactions, read_coordinator_logs
from tidelog.inspect.transactions import PartitionTransactions, open_transactions
from tidelog.model import CancelledError, TidelogError, TopicPartition
from tidelog.model.internal_topics import TRANSACTION_STATE_TOPIC
from tidelog.storage.fs import BY_PATH
from tidelog.web.jobs import LIVE_AGE_MS, Finished, JobProgress
from tidelog.web.reports.internal_logs import choose
from tidelog.web.request import PageRequest
from tidelog.web.sources import Sources

MOST_ENDED: Final = 50
OUTCOMES: Final = {"CompleteCommit": "committed", "CompleteAbort": "aborted"}
"""The outcome of a transaction by the state of its transactional id."""


@dataclass(frozen=True, slots=True)
class KnownId:
    """A transactional id, with the key of the log directory that has its newest record."""

    key: str
    known: TransactionalId


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorPart:
    """The numbers of a ``__transaction_state`` partition in the log directory with this key."""

    key: str
    partition: TopicPartition
    by_state: Counter[str]
    """The number of transactional ids by state."""
    undecoded: int
    first_undecoded: int | None
    """The offset of the first record that could not be decoded."""
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionReport:
    transactions: Sequence[JudgedTransaction] = ()
    elsewhere: int = 0
    """Transactions that are open only in replicas that were not chosen."""
    logs: int = 0
    """The number of logs that were looked at."""
    unread: Sequence[PartitionTransactions] = ()
    """The logs whose transactions are not known, each with its error."""
    coordinators: Sequence[CoordinatorPart] = ()
    ids: Sequence[KnownId] = ()
    """All transactional ids, sorted by name."""
    ended: Sequence[KnownId] = ()
    """The ``MOST_ENDED`` newest ended transactions, newest first."""
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
        if not self.coordinators and not self.errors:
            yield "No partition of __transaction_state is here, so only the logs tell about transactions."
        undecoded = sum(part.undecoded for part in self.coordinators)
        if undecoded:
            yield f"{undecoded:,} records of __transaction_state could not be decoded."
        for error in self.errors:
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
    errors += [error for log in coordinators.values() for error in log.errors]
    ids = _newest(coordinators)
    return TransactionReport(
        transactions=survey.transactions,
        elsewhere=len(others - known),
        logs=sum(map(len, found.values())),
        unread=[part for parts in found.values() for part in parts if part.error is not None],
        coordinators=[part for key, log in coordinators.items() for part in _parts(key, log)],
        ids=ids,
        ended=nlargest(
            MOST_ENDED,
            (one for one in ids if one.known.state in OUTCOMES),
            key=lambda one: one.known.last_update_timestamp or 0,
        ),
        replicas=replicas,
        errors=errors,
    )


def _newest(coordinators: Mapping[str, CoordinatorLog]) -> list[KnownId]:
    """Return the newest record of each transactional id of each cluster."""
    clusters: defaultdict[str, dict[str, KnownId]] = defaultdict(dict)
    for key, log in coordinators.items():
        newest = clusters[key if log.cluster_id is None else log.cluster_id]
        for known in log.ids:
            before = newest.get(known.name)
            if before is None or before.known.source_offset < known.source_offset:
                newest[known.name] = KnownId(key, known)
    found = [one for newest in clusters.values() for one in newest.values()]
    found.sort(key=lambda one: (one.known.name, one.key))
    return found


def _parts(key: str, log: CoordinatorLog) -> Iterator[CoordinatorPart]:
    counts: dict[TopicPartition, Counter[str]] = {
        TopicPartition(TRANSACTION_STATE_TOPIC, number): Counter() for number in log.partitions
    }
    counts |= {partition: Counter() for partition in log.undecoded_at}
    for known in log.ids:
        counts.setdefault(known.source, Counter())[known.state] += 1
    errors = {Path(error.path).parent.name: str(error) for error in log.errors if error.path is not None}
    for partition, by_state in sorted(counts.items()):
        undecoded, first = log.undecoded_at.get(partition, (0, None))
        yield CoordinatorPart(
            key=key,
            partition=partition,
            by_state=by_state,
            undecoded=undecoded,
            first_undecoded=first,
            error=errors.get(partition.directory_name),
        )


def key_of(sources: Sources, directory: Path) -> str | None:
    """Return the key of the log directory that has a partition's directory."""
    return next((one.key for one in sources.log_dirs if one.path == directory.parent), None)
