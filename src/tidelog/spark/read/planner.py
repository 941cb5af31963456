"""The planning of tasks from options and filters.

The planner reads names, checkpoints and indexes, but no record. The steps are: find the partitions, load each one's
frozen state, resolve its bounds, clamp them to the log (data loss), split into tasks. Tables that are made one
partition at a time take only the first and the last step. The planner runs in one planning worker and reads partitions
in parallel. A stream finds its partitions in the same way, and plans each micro-batch as a separate read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from tidelog.model import (
    ConfigError,
    FileMissingError,
    OffsetOutOfRangeError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, HIDDEN_FROM_PATTERNS
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.runtime.parallel import run_parallel
from tidelog.spark.read.bounds import ResolvedBounds
from tidelog.spark.read.found_partition import FoundPartition, copies_of
from tidelog.spark.read.options import OnCorrupt, ReadOptions, SubscriptionKind, Until
from tidelog.spark.read.pruning import Pruning
from tidelog.spark.read.split import LogSplit, Piece, grouped_whole
from tidelog.spark.read.splitting import PLANNING_THREADS, PartitionRange, SplitBoundaries, SplitPlan
from tidelog.spark.read.table_columns import Mode
from tidelog.spark.read.whole_partition import WholePartition
from tidelog.storage.fs import BY_PATH, path_of
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import live_partitions, require_log_directory

_log = logging.getLogger(__name__)

T = TypeVar("T")

"""Topics that a pattern excludes, as in Kafka's consumer. Naming one explicitly reads it."""

_SEGMENT_ROW_BYTES = 16 * 1024
"""The size of a segment's row when tasks are grouped: 256 rows are worth a task."""


Warn = Callable[[str], None]
"""A function for sentences that the user should see although the read goes on."""


def warn(sentence: str) -> None:
    """Log a warning in the planning worker's log."""
    _log.warning("%s", sentence)


def plan(
    options: ReadOptions, pruning: Pruning, warn: Warn = warn, before: Mapping[Path, DirectoryState] | None = None
) -> list[LogSplit]:
    """Return the tasks of a read by partition and offset. Raise TidelogError if the read cannot be planned.

    ``before`` works as in ``find_partitions``.
    """
    found = find_partitions(options, warn, before)
    if options.mode.is_made_by_partition:
        return _plan_whole(found, options, pruning, warn)
    check_maps(options, {entry.partition for entry in found})
    wanted = [entry for entry in found if pruning.keeps(entry.partition)]
    # The tables of batches and segments are made of whole segments, so they need no options for splitting.
    plan = (
        SplitPlan()
        if options.mode is not Mode.RECORDS
        else SplitPlan(
            split_bytes=options.split_bytes,
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
        )
    )

    def range_of(entry: FoundPartition) -> PartitionRange | None:
        return _range(entry, options, pruning, warn)

    ranges = run_parallel(
        lambda entry: _unless_gone(entry, options, warn, range_of), wanted, name="plan", threads=PLANNING_THREADS
    )
    return plan.tasks([part for part in ranges if part is not None])


def _plan_whole(found: list[FoundPartition], options: ReadOptions, pruning: Pruning, warn: Warn) -> list[LogSplit]:
    """Plan tables made one partition at a time. For the groups table, filters do not prune: a committed offset's topic
    does not tell which partition stores it."""
    wanted = [entry for entry in found if options.mode is Mode.GROUPS or pruning.keeps(entry.partition)]
    now_ms = SYSTEM_CLOCK.now_ms()

    def whole(entry: FoundPartition) -> WholePartition:
        return WholePartition.plan(entry.partition, entry.directory, entry.state, mode=options.mode, now_ms=now_ms)

    planned = run_parallel(
        lambda entry: _unless_gone(entry, options, warn, whole), wanted, name="plan", threads=PLANNING_THREADS
    )
    return grouped_whole(part for part in planned if part is not None)


def _unless_gone(
    entry: FoundPartition, options: ReadOptions, warn: Warn, look: Callable[[FoundPartition], T | None]
) -> T | None:
    """Call ``look``. A partition that its owner deletes meanwhile is data loss, or a warning."""
    try:
        return look(entry)
    except FileMissingError:
        if options.fail_on_data_loss or BY_PATH.exists(entry.directory):
            raise
        warn(f"{entry.partition} was deleted since the read began; reading the rest")
        return None


def find_partitions(
    options: ReadOptions, warn: Warn, before: Mapping[Path, DirectoryState] | None = None
) -> list[FoundPartition]:
    """Return the partitions that the subscription covers, sorted. Raise UnknownTopicOrPartitionError if a named one is
    missing. For the groups table, return the partitions of ``__consumer_offsets``, whatever the subscription.
    ``before`` holds earlier states of the log directories: unchanged checkpoints are not read again."""
    subscription = options.subscription
    found: list[FoundPartition] = []
    for name in options.log_dirs:
        log_dir = path_of(name)
        require_log_directory(BY_PATH, log_dir)
        state = read_directory_state(BY_PATH, log_dir, None if before is None else before.get(log_dir))
        for warning in state.warnings:
            warn(warning)
        if state.condition is DirectoryCondition.HELD and options.until is Until.AUTO and options.mode is Mode.RECORDS:
            warn(
                f"Process {state.holder} holds {log_dir}: reading up to the high watermarks it checkpointed; "
                "set until=log_end to read further"
            )
        for partition in live_partitions(BY_PATH, log_dir):
            by_pattern = subscription.kind is SubscriptionKind.PATTERN
            is_asked = subscription.covers(partition) and not (by_pattern and partition.topic in HIDDEN_FROM_PATTERNS)
            if partition.topic == GROUP_METADATA_TOPIC if options.mode is Mode.GROUPS else is_asked:
                found.append(FoundPartition(partition, log_dir / partition.directory_name, state))
    found.sort(key=lambda entry: (entry.partition, entry.directory))
    if options.mode is Mode.RECORDS and copies_of(found):
        from tidelog.spark.read.replicas import one_replica_each  # large, and a read of one broker does not need it

        found = one_replica_each(found, options, warn)
    if options.mode is not Mode.GROUPS:
        _check_missing(options, {entry.partition for entry in found}, warn)
    elif not found:
        warn(f"No partition of {GROUP_METADATA_TOPIC} lies in {', '.join(options.log_dirs)}: no groups")
    return found


def _check_missing(options: ReadOptions, found: set[TopicPartition], warn: Warn) -> None:
    subscription = options.subscription
    missing = sorted(str(partition) for partition in subscription.partitions - found)
    missing += sorted(subscription.topics - {partition.topic for partition in found})
    if not missing:
        return
    sentence = f"{', '.join(missing)} not found in {', '.join(options.log_dirs)}"
    if options.fail_on_data_loss:
        raise UnknownTopicOrPartitionError(f"{sentence}; set failOnDataLoss to false to go on without")
    warn(f"{sentence}; reading the rest")


def check_maps(options: ReadOptions, assigned: set[TopicPartition]) -> None:
    """Raise ConfigError unless maps of offsets or timestamps name exactly the partitions that are read. Without
    ``failOnDataLoss``, a map may also name covered partitions that are gone."""
    for end, bound in (("starting", options.starting), ("ending", options.ending)):
        named = bound.named_partitions()
        if named is None:
            continue
        gone = {partition for partition in named - assigned if options.subscription.covers(partition)}
        if (named if options.fail_on_data_loss else named - gone) != assigned:
            raise ConfigError(
                f"The {end} offsets must name exactly the partitions that are read (-1 is latest, -2 earliest): "
                f"named {_names(named)}, read {_names(assigned)}"
            )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return "{" + ", ".join(sorted(str(partition) for partition in partitions)) + "}"


def _range(entry: FoundPartition, options: ReadOptions, pruning: Pruning, warn: Warn) -> PartitionRange | None:
    """Return a partition's range for the read, or None if there is nothing to read."""
    view = LogView(BY_PATH, entry.directory, directory_state=entry.state)
    if options.mode is Mode.SEGMENTS:
        return _all_segments(entry, view)
    return _wanted_range(entry, view, options, pruning, warn)


def _all_segments(entry: FoundPartition, view: LogView) -> PartitionRange | None:
    segments = view.state.segments
    if not len(segments):
        return None
    size = _SEGMENT_ROW_BYTES * len(segments)
    piece = _piece(entry, view, segments.first.base_offset, segments.last.base_offset + 1, size_bytes=size)
    return PartitionRange(view=view, piece=piece, boundaries=SplitBoundaries.NONE)


def _wanted_range(
    entry: FoundPartition, view: LogView, options: ReadOptions, pruning: Pruning, warn: Warn
) -> PartitionRange | None:
    bounds = ResolvedBounds.resolve(view, options, entry.partition)
    start, end = _hold_to_log(view, options, entry.partition, bounds, warn)
    _warn_of_tail(view, entry.partition, warn)
    if options.mode is Mode.RECORDS:
        start = start if pruning.start_offset is None else max(start, pruning.start_offset)
        end = end if pruning.end_offset is None else min(end, pruning.end_offset)
    reports = options.on_corrupt is OnCorrupt.REPORT and view.state.invalid_tail is not None
    reports_tail = reports and start <= end == view.log_end
    if start >= end and not reports_tail:
        return None
    size = sum(segment.size for segment in view.state.segments.between(start, end))
    return PartitionRange(
        view=view,
        piece=_piece(entry, view, start, end, size_bytes=size, bounds=bounds),
        boundaries=SplitBoundaries.BATCHES if options.mode is Mode.RECORDS else SplitBoundaries.SEGMENTS,
        min_timestamp_ms=pruning.min_timestamp_ms if options.mode is Mode.RECORDS else None,
        reports_tail=reports_tail,
    )


def _piece(
    entry: FoundPartition, view: LogView, start: int, end: int, *, size_bytes: int, bounds: ResolvedBounds | None = None
) -> Piece:
    return Piece(
        partition=entry.partition,
        directory=entry.directory,
        start=start,
        end=end,
        size_bytes=size_bytes,
        state=view.state,
        aborted=None if bounds is None else bounds.aborted,
    )


def _hold_to_log(
    view: LogView, options: ReadOptions, partition: TopicPartition, bounds: ResolvedBounds, warn: Warn
) -> tuple[int, int]:
    """Return the range clamped to the log. Offsets outside were lost, or never existed."""
    start, end, limit = bounds.start, bounds.end, bounds.limit
    lost = []
    if start < view.log_start:
        lost.append(f"records from {start} on were asked for, but the log starts at {view.log_start}")
    if end > limit:
        lost.append(f"records up to {end} were asked for, but they end at {limit}")
    if start > end:
        lost.append(f"the start {start} lies after the end {end}")
    if lost and options.fail_on_data_loss:
        raise OffsetOutOfRangeError(
            f"{partition}: {'; '.join(lost)}. Some data may have been lost; "
            "set failOnDataLoss to false to read what is there",
            path=view.directory,
        )
    if lost:
        warn(f"{partition}: {'; '.join(lost)}; reading what is there")
    return max(start, view.log_start), min(end, limit)


def _warn_of_tail(view: LogView, partition: TopicPartition, warn: Warn) -> None:
    tail = view.state.invalid_tail
    if tail is not None and view.condition is not DirectoryCondition.HELD:
        warn(
            f"{partition} ends at offset {view.log_end}: the {tail.length} bytes after it are no valid batch "
            f"({tail.reason}; file {tail.path}, position {tail.position})"
        )
