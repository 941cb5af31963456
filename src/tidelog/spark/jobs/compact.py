"""``tidelog compact`` over many log directories as a Spark job: the same plans, the same logs afterwards.

=============  =======================================================================================================
on the driver  takes every directory's ``.lock`` (with ``apply``), reads the settings, writes the cleaner's checkpoints
a task each    plans a directory; cleans a log that is due, and swaps it in (``log_compaction``)
many tasks     a log of more than ``spread_bytes``: by key and by groups of segments, swapped in by the driver at once
               (``spread``)
=============  =======================================================================================================

Directories have to be visible under the same path to the driver and to every executor. Without ``apply`` nothing is
written, and they may be a live broker's. With it, no broker may have them, and they were stopped in order; a log that
cannot be cleaned, and a directory that is refused, is told in its row, and the others go on. What a crash leaves:
each log as it was, or compacted; checkpoints that lag behind, so that a clean is done again.

    python -m tidelog.spark.jobs.compact DIR... [--apply] …
    spark-submit …/tidelog/spark/jobs/compact.py DIR… --apply
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.config.java_properties import load_properties
from tidelog.model import TidelogError, TopicPartition
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.runtime.clock import Moment
from tidelog.spark.jobs.compact_rows import SCHEMA, Row, plan_row, refused_row
from tidelog.spark.jobs.spread import compact_spread
from tidelog.spark.jobs.tasks import run_tasks
from tidelog.spark.session_builder import session
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.load.overflow_split import is_overflowed
from tidelog.storage.log.view.directory_state import LOCK_FILE
from tidelog.storage.log.view.partitions import live_partitions, require_log_directory
from tidelog.storage.manager.compact.compact import CleanerCheckpoint, require_clean
from tidelog.storage.manager.compact.compact_plan import CompactOptions, CompactPlan, check_logs, plan_compaction
from tidelog.storage.manager.compact.log_compaction import CompactedLog, LogToCompact, compact_log
from tidelog.storage.manager.survey.setting_sources import read_setting_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPREAD_BYTES = 4 * 1024**3
"""A log of more is worth several tasks: below, one core takes less time than Spark to move its keys about."""
RATIO_KEY = "min.cleanable.dirty.ratio"

Outcome = CompactedLog | TidelogError


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """As ``tidelog compact`` has them. ``topics``: None for all."""

    topics: frozenset[str] | None = None
    min_dirty_ratio: float | None = None
    """0: every log that has anything to clean."""
    topic_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    """A broker's properties, or topics'."""
    check: bool = True
    """Read the logs that are due for what would stop a cleaner; of a plan only."""
    spread_bytes: int = SPREAD_BYTES
    now_ms: int | None = None
    """The moment by which all tasks judge; None: when the job begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planning:
    """What a task needs to plan a directory."""

    path: Path
    options: CompactOptions
    topics: frozenset[str] | None
    held_here: bool
    check: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cleaning:
    """What a task needs to clean a log."""

    work: LogToCompact
    options: CompactOptions


def compact(
    spark: SparkSession,
    directories: str | Path | Iterable[str | Path],
    options: JobOptions | None = None,
    *,
    apply: bool = False,
) -> DataFrame:
    """A row a log, see ``compact_rows``: planned, and with ``apply`` what came of it.

    DirectoryError for a path that is no log directory, ConfigError for settings that are none.
    """
    options = options or JobOptions()
    given = [directories] if isinstance(directories, str | Path) else list(directories)
    paths = [Path(path) for path in given]
    for path in paths:
        require_log_directory(LOCAL, path)
    sources = read_setting_sources(
        LOCAL,
        paths,
        file=options.properties,
        file_name="properties",
        overrides={} if options.min_dirty_ratio is None else {RATIO_KEY: str(options.min_dirty_ratio)},
        topic_overrides=options.topic_settings,
    )
    clock = Moment(SYSTEM_CLOCK.now_ms() if options.now_ms is None else options.now_ms)
    of_path = {path: CompactOptions(sources=sources[path], clock=clock, threads=1) for path in paths}
    rows = list(_applied(spark, of_path, options)) if apply else list(_planned(spark, of_path, options))
    return spark.createDataFrame(rows, SCHEMA)


def _planned(spark: SparkSession, of_path: Mapping[Path, CompactOptions], options: JobOptions) -> Iterator[Row]:
    for path, plan in _plans(spark, of_path, options, held_here=False).items():
        if isinstance(plan, TidelogError):
            yield refused_row(path, plan)
        else:
            yield from (plan_row(path, log) for log in plan.logs)


def _applied(spark: SparkSession, of_path: Mapping[Path, CompactOptions], options: JobOptions) -> Iterator[Row]:
    with ExitStack() as locks:
        held: dict[Path, CompactOptions] = {}
        for path, of in of_path.items():
            try:
                locks.callback(LOCAL.lock(path / LOCK_FILE).release)
                held[path] = of
            except TidelogError as error:
                yield refused_row(path, error)
        plans = _plans(spark, held, options, held_here=True)
        whole: dict[Path, CompactPlan] = {}
        for path, plan in plans.items():
            try:
                if isinstance(plan, TidelogError):
                    raise plan
                require_clean(plan)
                whole[path] = plan
            except TidelogError as error:
                yield refused_row(path, error)
        done = _clean_all(spark, whole, of_path, options)
        for path, plan in whole.items():
            yield from (plan_row(path, log, done.get((path, log.partition))) for log in plan.logs)


def _plans(
    spark: SparkSession, of_path: Mapping[Path, CompactOptions], options: JobOptions, *, held_here: bool
) -> dict[Path, CompactPlan | TidelogError]:
    works = [
        _Planning(path=path, options=of, topics=options.topics, held_here=held_here, check=options.check)
        for path, of in of_path.items()
    ]
    return dict(zip(of_path, run_tasks(spark, works, _plan), strict=True))


def _plan(work: _Planning) -> CompactPlan:
    """In a task."""
    only = None
    if work.topics is not None:
        only = [part for part in live_partitions(LOCAL, work.path) if part.topic in work.topics]
    plan = plan_compaction(LOCAL, work.path, work.options, only=only, held_here=work.held_here)
    if work.held_here or not work.check:
        return plan  # a clean finds what stops it, too
    return check_logs(LOCAL, plan, advance=lambda _bytes: None)


def _clean_all(
    spark: SparkSession,
    plans: Mapping[Path, CompactPlan],
    of_path: Mapping[Path, CompactOptions],
    options: JobOptions,
) -> dict[tuple[Path, TopicPartition], Outcome]:
    """The largest logs first: those that are spread, then all others at once."""
    due = [
        (path, _Cleaning(work=LogToCompact.of(path, log, plan.state), options=of_path[path]))
        for path, plan in plans.items()
        for log in plan.due
    ]
    due.sort(key=lambda entry: -entry[1].work.work_bytes)
    spread = [(path, one) for path, one in due if _is_spread(one.work, options.spread_bytes)]
    rest = [entry for entry in due if entry not in spread]
    found: list[Outcome] = [compact_spread(spark, one.work, clock=one.options.clock) for _, one in spread]
    found += run_tasks(spark, [one for _, one in rest], _clean)
    done = {
        (path, one.work.plan.partition): outcome for (path, one), outcome in zip([*spread, *rest], found, strict=True)
    }
    for path, plan in plans.items():
        _note(path, plan, {part: outcome for (of, part), outcome in done.items() if of == path})
    return done


def _is_spread(work: LogToCompact, spread_bytes: int) -> bool:
    """A segment with offsets that overflow is split first, which is one process's work."""
    if work.plan.reclaimable_bytes <= spread_bytes:
        return False
    bases = [segment.base_offset for segment in work.plan.facts.segments]
    return not any(is_overflowed(LOCAL, work.directory, base, bases) for base in bases if base < work.plan.end_offset)


def _clean(work: _Cleaning) -> CompactedLog:
    """In a task."""
    return compact_log(LOCAL, work.work, cleaner=work.options.cleaner, clock=work.options.clock)


def _note(path: Path, plan: CompactPlan, done: Mapping[TopicPartition, Outcome]) -> None:
    checkpoint = CleanerCheckpoint(LOCAL, path)
    checkpoint.note_resets(plan)
    for partition, outcome in done.items():
        if isinstance(outcome, CompactedLog):
            checkpoint.note(partition, outcome.first_dirty_offset)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0, or 1 where a row has an error or names what would stop a cleaner."""
    given = _parser().parse_args(arguments)
    ratio = 0.0 if given.all else given.min_dirty_ratio
    settings: dict[str, dict[str, str]] = {}
    for topic, key, value in given.topic_config:
        settings.setdefault(topic, {})[key] = value
    options = JobOptions(
        topics=frozenset(given.topic) if given.topic else None,
        min_dirty_ratio=ratio,
        topic_settings=settings,
        properties={} if given.config_file is None else load_properties(given.config_file.read_text("latin-1")),
        check=not given.no_check,
        spread_bytes=given.spread_bytes,
    )
    table = compact(session("tidelog compact", master=given.master), given.directories, options, apply=given.apply)
    rows = table.collect()
    for row in rows:
        print(json.dumps(row.asDict()))
    return int(any(row["error"] is not None or row["stoppedBy"] is not None for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidelog.spark.jobs.compact", description="tidelog compact as a Spark job: prints a JSON object a log."
    )
    parser.add_argument("directories", nargs="+", metavar="DIR")
    parser.add_argument("--apply", action="store_true", help="do it; without, nothing is changed")
    parser.add_argument("--all", action="store_true", help="every log that has anything to clean counts as due")
    parser.add_argument("--min-dirty-ratio", type=float, metavar="RATIO", help="in place of the topics' own")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME", help="only this topic; repeatable")
    parser.add_argument("--no-check", action="store_true", help="do not look for what would stop a cleaner")
    parser.add_argument("--topic-config", action="append", default=[], type=_setting, metavar="TOPIC:KEY=VALUE")
    parser.add_argument("--config-file", type=Path, metavar="FILE", help="a broker's or topics' properties")
    parser.add_argument(
        "--spread-bytes", type=int, default=SPREAD_BYTES, metavar="N", help="a log of more takes several tasks"
    )
    parser.add_argument("--master", metavar="URL", help="Spark's; not with spark-submit")
    return parser


def _setting(text: str) -> tuple[str, str, str]:
    topic, colon, setting = text.partition(":")
    key, equals, value = setting.partition("=")
    if not (topic and colon and key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC:KEY=VALUE")
    return topic, key.strip(), value


if __name__ == "__main__":
    # What is sent to executors has to be of a module that they can import, which __main__ is not.
    from tidelog.spark.jobs.compact import main as run_main

    sys.exit(run_main())
