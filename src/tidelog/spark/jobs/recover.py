"""The Spark job for ``tidelog recover`` over many log directories: the same plans and results.

=============  =======================================================================================================
on the driver  completes decided commits, takes every directory's ``.lock``, removes its clean-shutdown marker; writes
               checkpoints and marker once all partitions of a directory are recovered
one task each  plans a directory
tasks          recover partitions, about 128 MiB per task; a partition is never divided, however large
=============  =======================================================================================================

Directories must be visible under the same path to the driver and to every executor. Without ``apply`` nothing is
written, and a live broker may hold them. With ``apply``, no broker may hold them. If a directory is refused or a
partition cannot be recovered, its row has the error and the others go on. A crash leaves the same state as a crash of
``tidelog recover`` (``DirectoryRecovery``), so the job can run again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model import ConfigError, TidelogError
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.spark.jobs.progress import OnProgress, advancing
from tidelog.spark.jobs.recovery_rows import SCHEMA, Cells, directory_row, partition_row, refused_row
from tidelog.spark.jobs.tasks import outcome, run_tasks
from tidelog.spark.jobs.work import in_tasks, plan_each, require_directories
from tidelog.storage.fs import LOCAL, require_disk
from tidelog.storage.manager.recovery.directory_recovery import DirectoryRecovery
from tidelog.storage.manager.recovery.partition_recovery import RecoveredPartition, recover_partition
from tidelog.storage.manager.recovery.recover_plan import PartitionPlan, RecoverOptions, RecoverPlan, plan_directory
from tidelog.storage.manager.staged.staged_commit import StagedCommit, read_intent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Outcome = RecoveredPartition | TidelogError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recovering:
    """The input of a task that recovers some partitions of a directory."""

    path: Path
    partitions: tuple[PartitionPlan, ...]
    options: RecoverOptions

    @property
    def read_bytes(self) -> int:
        return sum(part.read_bytes for part in self.partitions)


def recover(
    spark: SparkSession,
    directories: str | Path | Iterable[str | Path],
    options: RecoverOptions | None = None,
    *,
    topics: Collection[str] | None = None,
    apply: bool = False,
    on_progress: OnProgress | None = None,
) -> DataFrame:
    """Return a row per directory and one per partition (see ``recovery_rows``): the plan, or the outcome.

    Raise DirectoryError for a path that is no log directory, and ConfigError for ``topics`` with ``apply``.
    """
    if apply and topics is not None:
        raise ConfigError("recovery covers whole log directories: do not name a topic")
    paths = require_directories(directories)
    require_disk(paths)
    options = replace(options or RecoverOptions(now_ms=SYSTEM_CLOCK.now_ms()), sibling_directories=tuple(paths))
    if apply:
        rows = list(_applied(spark, paths, options, on_progress))
    else:
        only = None if topics is None else frozenset(topics)
        of_path = dict.fromkeys(paths, options)
        rows = list(_planned(plan_each(spark, plan_directory, of_path, topics=only, held_here=False)))
    return spark.createDataFrame(rows, SCHEMA)


def failed(rows: Iterable[Mapping[str, object]]) -> bool:
    """Return True if collected rows, or dictionaries of them, contain an error."""
    return any(row["error"] is not None for row in rows)


def _planned(plans: Mapping[Path, RecoverPlan | TidelogError]) -> Iterator[Cells]:
    for path, plan in plans.items():
        if isinstance(plan, TidelogError):
            yield refused_row(path, plan)
            continue
        yield directory_row(plan, plan.commit)
        yield from (partition_row(path, part) for part in plan.partitions)


def _applied(
    spark: SparkSession, paths: Sequence[Path], options: RecoverOptions, on_progress: OnProgress | None
) -> Iterator[Cells]:
    commits: dict[Path, StagedCommit | None] = {}
    held: dict[Path, DirectoryRecovery] = {}
    with ExitStack() as locks:
        for path in paths:
            try:
                commits[path] = read_intent(LOCAL, path)
                held[path] = locks.enter_context(DirectoryRecovery(LOCAL, path))
            except TidelogError as error:
                yield refused_row(path, error)
        begun: dict[Path, RecoverPlan] = {}
        for path, plan in plan_each(spark, plan_directory, dict.fromkeys(held, options), held_here=True).items():
            try:
                if isinstance(plan, TidelogError):
                    raise plan
                held[path].begin(plan)
                begun[path] = plan
            except TidelogError as error:
                yield refused_row(path, error)
        done = _recover_all(spark, begun, options, on_progress)
        for path, plan in begun.items():
            outcomes = {part.name: done[path, part.name] for part in plan.partitions}
            yield directory_row(plan, commits[path], _finished(held[path], plan, outcomes))
            yield from (partition_row(path, part, outcomes[part.name]) for part in plan.partitions)


def _recover_all(
    spark: SparkSession, plans: Mapping[Path, RecoverPlan], options: RecoverOptions, on_progress: OnProgress | None
) -> dict[tuple[Path, str], Outcome]:
    """Return outcomes by directory and name of the partition's directory. The largest work begins first."""
    works = [
        _Recovering(path=path, partitions=together, options=options)
        for path, plan in plans.items()
        for together in in_tasks(plan.partitions, lambda part: part.read_bytes)
    ]
    works.sort(key=lambda work: -work.read_bytes)
    advance = advancing(on_progress, sum(work.read_bytes for work in works))
    found = run_tasks(spark, works, _recover, size=lambda work: work.read_bytes, advance=advance)
    outcomes: dict[tuple[Path, str], Outcome] = {}
    for work, ones in zip(works, found, strict=True):
        each = [ones] * len(work.partitions) if isinstance(ones, TidelogError) else ones
        outcomes |= {(work.path, part.name): one for part, one in zip(work.partitions, each, strict=True)}
    return outcomes


def _recover(work: _Recovering) -> list[Outcome]:
    """Recover each of the partitions inside a Spark task."""
    return [
        outcome(lambda part: recover_partition(LOCAL, work.path, part, work.options), part) for part in work.partitions
    ]


def _finished(recovery: DirectoryRecovery, plan: RecoverPlan, outcomes: Mapping[str, Outcome]) -> TidelogError | None:
    """Return the error for which the directory does not count as cleanly shut down, or None if it does."""
    done = tuple(one for one in outcomes.values() if isinstance(one, RecoveredPartition))
    failures = tuple((name, one) for name, one in outcomes.items() if isinstance(one, TidelogError))
    try:
        recovery.finish(plan, done, failures)
    except TidelogError as error:
        return error
    if failures:
        return TidelogError(f"{len(failures)} partitions failed: no checkpoint was written", path=plan.path)
    return None
