"""The Spark job for ``tidelog compact`` over many log directories: the same plans and results.

=============  =======================================================================================================
on the driver  takes every directory's ``.lock`` (with ``apply``), reads the settings, writes the cleaner's checkpoints
one task each  plans a directory; checks a due log for problems that would stop a cleaner (without ``apply``), or
               cleans it and swaps it in (``log_compaction``)
many tasks     clean a log of more than ``spread_bytes``, by key and by groups of segments; the driver swaps all
               segments in at once (``spread``)
=============  =======================================================================================================

Directories must be visible under the same path to the driver and to every executor. Without ``apply`` nothing is
written, and a live broker may hold them. With ``apply``, no broker may hold them, and their last shutdown must be
clean. If a log cannot be cleaned or a directory is refused, its row has the error and the others go on. A crash leaves
each log unchanged or compacted. Checkpoints may lag behind, so that a log is cleaned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model import TidelogError, TopicPartition
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.runtime.clock import FixedClock
from tidelog.spark.jobs.compaction.compaction_rows import SCHEMA, Row, plan_row, refused_row
from tidelog.spark.jobs.compaction.spread import compact_spread
from tidelog.spark.jobs.progress import OnProgress, advancing
from tidelog.spark.jobs.tasks import run_tasks
from tidelog.spark.jobs.work import plan_each, require_directories
from tidelog.spark.read.whole_partition import state_of
from tidelog.storage.fs import LOCAL, require_disk
from tidelog.storage.log.load.overflow_split import is_overflowed
from tidelog.storage.log.view.directory_state import LOCK_FILE
from tidelog.storage.manager.compact.compact import CleanerCheckpoint, require_clean
from tidelog.storage.manager.compact.compact_plan import (
    CompactionOutlook,
    CompactOptions,
    CompactPlan,
    check_logs,
    plan_compaction,
)
from tidelog.storage.manager.compact.log_compaction import CompactedLog, LogToCompact, compact_log
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.manager.survey.setting_sources import read_setting_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPREAD_BYTES = 4 * 1024**3
"""A log above this size is worth several tasks. Below it, one core is faster than Spark's shuffle of the keys."""
RATIO_KEY = "min.cleanable.dirty.ratio"

Outcome = CompactedLog | TidelogError


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of ``tidelog compact``. ``topics`` None selects all topics."""

    topics: frozenset[str] | None = None
    min_dirty_ratio: float | None = None
    """0 selects every log that has anything to clean."""
    topic_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    """The properties of a broker or of topics."""
    elsewhere: TopicMetadata | None = None
    """The metadata for directories without any, from ZooKeeper."""
    check: bool = True
    """True if a plan checks due logs for problems that would stop a cleaner. ``apply`` ignores it."""
    spread_bytes: int = SPREAD_BYTES
    now_ms: int | None = None
    """The time by which all tasks judge. None means the start of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cleaning:
    """The input of a task that cleans a log."""

    work: LogToCompact
    options: CompactOptions


def compact(
    spark: SparkSession,
    directories: str | Path | Iterable[str | Path],
    options: JobOptions | None = None,
    *,
    apply: bool = False,
    on_progress: OnProgress | None = None,
) -> DataFrame:
    """Return one row per log (see ``compaction_rows``): its plan, and with ``apply`` the outcome.

    Raise DirectoryError for a path that is no log directory, and ConfigError for invalid settings.
    """
    options = options or JobOptions()
    paths = require_directories(directories)
    require_disk(paths)
    sources = read_setting_sources(
        LOCAL,
        paths,
        file=options.properties,
        file_name="properties",
        overrides={} if options.min_dirty_ratio is None else {RATIO_KEY: str(options.min_dirty_ratio)},
        topic_overrides=options.topic_settings,
        elsewhere=options.elsewhere,
    )
    clock = FixedClock(SYSTEM_CLOCK.now_ms() if options.now_ms is None else options.now_ms)
    of_path = {path: CompactOptions(sources=sources[path], clock=clock, threads=1) for path in paths}
    do = _applied if apply else _planned
    return spark.createDataFrame(list(do(spark, of_path, options, on_progress)), SCHEMA)


def _planned(
    spark: SparkSession, of_path: Mapping[Path, CompactOptions], options: JobOptions, on_progress: OnProgress | None
) -> Iterator[Row]:
    plans = plan_each(spark, plan_compaction, of_path, topics=options.topics, held_here=False)
    whole = {path: plan for path, plan in plans.items() if isinstance(plan, CompactPlan)}
    if options.check:
        whole = _checked(spark, whole, on_progress)
    for path, plan in plans.items():
        if isinstance(plan, TidelogError):
            yield refused_row(path, plan)
        else:
            yield from (plan_row(path, log) for log in whole[path].logs)


def _applied(
    spark: SparkSession, of_path: Mapping[Path, CompactOptions], options: JobOptions, on_progress: OnProgress | None
) -> Iterator[Row]:
    with ExitStack() as locks:
        held: dict[Path, CompactOptions] = {}
        for path, of in of_path.items():
            try:
                locks.callback(LOCAL.lock(path / LOCK_FILE).release)
                held[path] = of
            except TidelogError as error:
                yield refused_row(path, error)
        plans = plan_each(spark, plan_compaction, held, topics=options.topics, held_here=True)
        whole: dict[Path, CompactPlan] = {}
        for path, plan in plans.items():
            try:
                if isinstance(plan, TidelogError):
                    raise plan
                require_clean(plan)
                whole[path] = plan
            except TidelogError as error:
                yield refused_row(path, error)
        done = _clean_all(spark, whole, of_path, options, on_progress)
        for path, plan in whole.items():
            yield from (plan_row(path, log, done.get((path, log.partition))) for log in plan.logs)


def _checked(
    spark: SparkSession, plans: Mapping[Path, CompactPlan], on_progress: OnProgress | None
) -> dict[Path, CompactPlan]:
    """Return the plans with the problems that would stop a cleaner. A clean finds them too, so only plans need this."""
    works = [
        replace(plan, logs=(log,), state=state_of(plan.state, log.partition), warnings=())
        for plan in plans.values()
        for log in plan.due
    ]
    advance = advancing(on_progress, sum(work.bytes_to_clean for work in works))
    found = run_tasks(spark, works, _check, size=lambda work: work.bytes_to_clean, advance=advance)
    logs = {}
    for work, checked in zip(works, found, strict=True):
        [log] = work.logs
        logs[work.path, log.partition] = replace(log, error=checked) if isinstance(checked, TidelogError) else checked
    return {
        path: replace(plan, logs=tuple(logs.get((path, log.partition), log) for log in plan.logs))
        for path, plan in plans.items()
    }


def _check(work: CompactPlan) -> CompactionOutlook:
    """Check the plan's only log inside a Spark task."""
    [log] = check_logs(LOCAL, work, threads=1, advance=lambda _bytes: None).logs
    return log


def _clean_all(
    spark: SparkSession,
    plans: Mapping[Path, CompactPlan],
    of_path: Mapping[Path, CompactOptions],
    options: JobOptions,
    on_progress: OnProgress | None,
) -> dict[tuple[Path, TopicPartition], Outcome]:
    """Clean the largest logs first: spread logs one by one, then all others at once."""
    due = [
        (path, _Cleaning(work=LogToCompact.of(path, log, plan.state), options=of_path[path]))
        for path, plan in plans.items()
        for log in plan.due
    ]
    due.sort(key=lambda entry: -entry[1].work.work_bytes)
    spread = [(path, one) for path, one in due if _is_spread(one.work, options.spread_bytes)]
    rest = [entry for entry in due if entry not in spread]
    advance = advancing(on_progress, sum(one.work.work_bytes for _, one in due))
    found: list[Outcome] = []
    for _, one in spread:
        found.append(compact_spread(spark, one.work, clock=one.options.clock))
        if advance is not None:
            advance(one.work.work_bytes)
    found += run_tasks(spark, [one for _, one in rest], _clean, size=lambda one: one.work.work_bytes, advance=advance)
    done = {
        (path, one.work.plan.partition): outcome for (path, one), outcome in zip([*spread, *rest], found, strict=True)
    }
    for path, plan in plans.items():
        _note(path, plan, {part: outcome for (of, part), outcome in done.items() if of == path})
    return done


def _is_spread(work: LogToCompact, spread_bytes: int) -> bool:
    """Return True if many tasks clean the log. A segment whose offsets overflow must be split first, by one process."""
    if work.plan.reclaimable_bytes <= spread_bytes:
        return False
    bases = [segment.base_offset for segment in work.plan.facts.segments]
    return not any(is_overflowed(LOCAL, work.directory, base, bases) for base in bases if base < work.plan.end_offset)


def _clean(work: _Cleaning) -> CompactedLog:
    """Clean a log inside a Spark task."""
    return compact_log(LOCAL, work.work, cleaner=work.options.cleaner, clock=work.options.clock)


def _note(path: Path, plan: CompactPlan, done: Mapping[TopicPartition, Outcome]) -> None:
    checkpoint = CleanerCheckpoint(LOCAL, path)
    checkpoint.note_resets(plan)
    for partition, outcome in done.items():
        if isinstance(outcome, CompactedLog):
            checkpoint.note(partition, outcome.first_dirty_offset)
