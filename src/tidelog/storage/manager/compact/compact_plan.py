"""The plan of compacting a log directory, made by reading only, also while a broker is running.

=====================================  ================================================================================
a log                                  in the plan
=====================================  ================================================================================
the metadata log                       omitted, because KRaft manages it by snapshots
without ``compact`` in its policy      listed with that reason; none of its files is read
with ``compact``                       its ranges, bytes and dirty ratio as Kafka's cleaner computes them, and the
                                       reason why it is due or not (``storage.cleaner.plan``)
that is due, on ``check_logs``         read to the end of the clean for obstacles (``obstacles``)
that cannot be read                    listed with the error
=====================================  ================================================================================

Use ``SettingSources.overrides`` for settings that make more logs due. While a broker uses the directory, a plan is only
a forecast. Compaction makes its own plan under the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from tidelog.model import StorageError, TidelogError, TopicPartition
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.runtime.parallel import run_parallel
from tidelog.runtime.progress import Advance, one_at_a_time
from tidelog.storage.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.cleaner.plan.log_facts import facts_of_view
from tidelog.storage.cleaner.plan.log_plan import LogPlan, plan_log
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.change.retention import RetentionSegment
from tidelog.storage.log.view.directory_state import DirectoryState, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import each_partition
from tidelog.storage.log.view.transaction_scan import UnstableTransaction
from tidelog.storage.manager.compact.obstacles import Obstacle, find_obstacles
from tidelog.storage.manager.survey.log_survey import (
    HighWatermarkFrom,
    survey_high_watermark,
    survey_segment,
    while_files_move,
)
from tidelog.storage.manager.survey.setting_sources import SettingSources, SourcedConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    sources: SettingSources
    clock: Clock = SYSTEM_CLOCK
    """The clock for lags, delete horizons and idle producers."""
    cleaner: CleanerSettings = field(default_factory=CleanerSettings)
    threads: int | None = None
    """None means one thread per processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOutlook:
    """The outlook of one log. ``plan`` is None if the log is not compacted, or unreadable (``error``)."""

    partition: TopicPartition
    settings: SourcedConfig
    plan: LogPlan | None = None
    high_watermark: int = 0
    high_watermark_from: HighWatermarkFrom = HighWatermarkFrom.LOG_END
    unstable: UnstableTransaction | None = None
    """The transaction that sets the last stable offset, or None if that is the high watermark."""
    segments: tuple[RetentionSegment, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    error: TidelogError | None = None

    @property
    def name(self) -> str:
        return self.partition.directory_name

    @property
    def is_due(self) -> bool:
        return self.plan is not None and self.plan.is_due

    @property
    def stopped_by(self) -> Obstacle | None:
        return next((obstacle for obstacle in self.obstacles if obstacle.stops), None)

    @property
    def bytes_to_clean(self) -> int:
        """The bytes of the segments to rewrite, 0 if the log is not due."""
        return self.plan.reclaimable_bytes if self.plan is not None and self.plan.is_due else 0

    @property
    def work_bytes(self) -> int:
        """The most bytes that a clean reads and writes: the dirty bytes for their keys, then all bytes."""
        return 2 * self.bytes_to_clean + self.plan.dirty_bytes if self.plan is not None and self.plan.is_due else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactPlan:
    """The plan for a complete log directory or the requested partitions, sorted by name."""

    path: Path
    state: DirectoryState
    logs: tuple[CompactionOutlook, ...]
    warnings: tuple[str, ...]

    @property
    def due(self) -> tuple[CompactionOutlook, ...]:
        return tuple(log for log in self.logs if log.is_due)

    @property
    def bytes_to_clean(self) -> int:
        return sum(log.bytes_to_clean for log in self.logs)

    @property
    def work_bytes(self) -> int:
        return sum(log.work_bytes for log in self.logs)

    @property
    def free_bytes_needed(self) -> int:
        """The upper bound: no record is obsolete, and all logs are cleaned at once before old files are removed."""
        return self.bytes_to_clean


def plan_compaction(
    fs: FileSystem,
    path: Path,
    options: CompactOptions,
    *,
    only: Iterable[TopicPartition] | None = None,
    held_here: bool = False,
    advance: Advance = lambda _logs: None,
) -> CompactPlan:
    """Plan a log directory. Raise DirectoryError if it cannot be listed, ConfigError for invalid settings.

    ``held_here`` means that the caller holds the directory's lock, so the last owner's marker decides its condition.
    ``advance`` receives the number of finished logs.
    """
    state = read_directory_state(fs, path, held_here=held_here)
    last_clean, warning = _last_clean_offsets(fs, path)
    of_topic = cache(options.sources.of_topic)
    advance = one_at_a_time(advance)

    def finished(view: LogView, partition: TopicPartition, tell: Advance) -> CompactionOutlook:
        found = outlook(view, partition, tell)
        advance(1)
        return found

    def outlook(view: LogView, partition: TopicPartition, _tell: Advance) -> CompactionOutlook:
        settings = of_topic(partition.topic)
        if not settings.config.is_compacted:
            return CompactionOutlook(partition=partition, settings=settings)
        bare = CompactionOutlook(partition=partition, settings=settings)
        try:
            return while_files_move(view, lambda: _outlook(view, bare, options, last_clean.get(partition)))
        except TidelogError as error:
            return replace(bare, error=error)

    logs = each_partition(fs, path, finished, only=only, state=state, threads=options.threads)
    return CompactPlan(
        path=path,
        state=state,
        logs=tuple(log for log in logs if log.partition.topic != CLUSTER_METADATA_TOPIC),
        warnings=(*state.warnings, *([warning] if warning else ())),
    )


def check_logs(
    fs: FileSystem, plan: CompactPlan, *, threads: int | None = None, advance: Callable[[int], None]
) -> CompactPlan:
    """Return the plan with the obstacles in the logs that are due. Several threads call ``advance``."""

    def check(log: CompactionOutlook) -> CompactionOutlook:
        if log.plan is None or not log.plan.is_due:
            return log
        view = LogView(ReadOnlyFileSystem(fs), plan.path / log.name, directory_state=plan.state)
        try:
            found = find_obstacles(view, log.plan.end_offset, aborted_below=log.high_watermark, advance=advance)
        except TidelogError as error:
            return replace(log, error=error)
        return replace(log, obstacles=found)

    return replace(plan, logs=tuple(run_parallel(check, plan.logs, name="check", threads=threads)))


def _outlook(
    view: LogView, bare: CompactionOutlook, options: CompactOptions, last_clean: int | None
) -> CompactionOutlook:
    segments = tuple(survey_segment(view, segment)[0] for segment in view.state.segments)
    high_watermark, known_from = survey_high_watermark(view, bare.partition, options.sources.metadata)
    facts = facts_of_view(
        view,
        bare.partition,
        config=bare.settings.config,
        segments=segments,
        high_watermark=high_watermark,
        last_clean_offset=last_clean,
        now_ms=options.clock.now_ms(),
    )
    return replace(
        bare,
        plan=plan_log(facts),
        high_watermark=high_watermark,
        high_watermark_from=known_from,
        unstable=view.transactions(high_watermark).scan.first_unstable(high_watermark),
        segments=segments,
    )


def _last_clean_offsets(fs: FileSystem, path: Path) -> tuple[dict[TopicPartition, int], str | None]:
    """Return the checkpoint, and a warning if it is unreadable. Then nothing counts as cleaned, as in a broker."""
    try:
        return OffsetCheckpoint.read(fs, path / CLEANER_CHECKPOINT), None
    except StorageError as error:
        return {}, f"{error}; treated as empty"
