"""From options and filters to tasks, using names, checkpoints and indexes only: no record is read.

Steps: find the partitions, load each one's frozen state, resolve its two ends, hold them to the log (data loss), cut
at batch boundaries, put small pieces together. Runs in one planning worker; partitions are looked at in parallel.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tidelog.model import (
    ConfigError,
    DirectoryError,
    Isolation,
    OffsetOutOfRangeError,
    TidelogError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from tidelog.spark.options import EARLIEST, LATEST, Bound, ReadOptions, SubscriptionKind, Until
from tidelog.spark.pruning import Pruning
from tidelog.spark.schema import Mode
from tidelog.spark.split import SMALL_TASK_BYTES, LogSplit, Piece, grouped
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.directory_state import DirectoryState, read_directory_state
from tidelog.storage.log.log_view import LogView
from tidelog.storage.log.partitions import live_partitions

_log = logging.getLogger(__name__)

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""Left out of a pattern, as Kafka's consumer leaves them out; a topic may be named like one and still be a user's."""


@dataclass(frozen=True, slots=True)
class _Found:
    partition: TopicPartition
    directory: Path
    state: DirectoryState


def plan(options: ReadOptions, pruning: Pruning) -> list[LogSplit]:
    """The tasks of a read, in order of partition and offset. TidelogError says why a read cannot be planned."""
    found = _find(options)
    _check_maps(options, found)
    wanted = [entry for entry in found if pruning.keeps(entry.partition)]
    with ThreadPoolExecutor(max_workers=2 * (os.cpu_count() or 1)) as pool:
        nested = pool.map(lambda entry: _plan_partition(entry, options, pruning), wanted)
        pieces = [piece for part in nested for piece in part]
    if options.min_partitions is None:
        return grouped(pieces, SMALL_TASK_BYTES)
    return [LogSplit((piece.trimmed(),)) for piece in _at_least(pieces, options.min_partitions)]


def _find(options: ReadOptions) -> list[_Found]:
    subscription = options.subscription
    found: dict[tuple[TopicPartition, Path], _Found] = {}
    for name in options.log_dirs:
        log_dir = Path(name)
        state = read_directory_state(LOCAL, log_dir)
        for partition in live_partitions(LOCAL, log_dir):
            by_pattern = subscription.kind is SubscriptionKind.PATTERN
            if subscription.covers(partition) and not (by_pattern and partition.topic in INTERNAL_TOPICS):
                found[partition, log_dir] = _Found(partition, log_dir / partition.directory_name, state)
    entries = [found[key] for key in sorted(found)]
    if options.mode is Mode.RECORDS:
        _refuse_copies(entries)
    _check_missing(options, {entry.partition for entry in entries})
    return entries


def _refuse_copies(entries: list[_Found]) -> None:
    seen: dict[TopicPartition, Path] = {}
    for entry in entries:
        other = seen.setdefault(entry.partition, entry.directory)
        if other != entry.directory:
            raise DirectoryError(
                f"{entry.partition} lies in two of the directories, {other.parent} and {entry.directory.parent}: reading both "
                "would double its records. Give one of them"
            )


def _check_missing(options: ReadOptions, found: set[TopicPartition]) -> None:
    subscription = options.subscription
    missing = sorted(str(partition) for partition in subscription.partitions - found)
    missing += sorted(subscription.topics - {partition.topic for partition in found})
    if missing and options.fail_on_data_loss:
        raise UnknownTopicOrPartitionError(
            f"{', '.join(missing)} not found in {', '.join(options.log_dirs)}; set failOnDataLoss to false to go on without"
        )
    if missing:
        _log.warning("%s not found in %s; reading the rest", ", ".join(missing), ", ".join(options.log_dirs))


def _check_maps(options: ReadOptions, found: Iterable[_Found]) -> None:
    """A map of offsets or timestamps must name every partition that is read, and no other."""
    assigned = frozenset(entry.partition for entry in found)
    for end, bound in (("starting", options.starting), ("ending", options.ending)):
        named = bound.named_partitions()
        if named is not None and named != assigned:
            raise ConfigError(
                f"The {end} offsets must name exactly the partitions that are read (-1 is latest, -2 earliest): "
                f"named {_names(named)}, read {_names(assigned)}"
            )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return "{" + ", ".join(sorted(str(partition) for partition in partitions)) + "}"


def _plan_partition(entry: _Found, options: ReadOptions, pruning: Pruning) -> list[Piece]:
    view = LogView(LOCAL, entry.directory, directory_state=entry.state)
    until = None if options.until is Until.AUTO else options.until.value
    if options.mode is Mode.SEGMENTS:
        return [_piece(entry, view, view.log_start, max(view.log_end, view.log_start + 1), size_bytes=1)]
    isolation = Isolation.READ_COMMITTED if options.read_committed else Isolation.READ_UNCOMMITTED
    limit = view.log_end if options.mode is Mode.BATCHES else view.limit(isolation, until)
    start = _start(view, options, entry.partition, isolation, until)
    end = _end(view, options, entry.partition, isolation, until, limit)
    start, end = _hold_to_log(view, options, entry.partition, start, end, limit)
    if pruning.start_offset is not None:
        start = max(start, pruning.start_offset)
    if pruning.end_offset is not None:
        end = min(end, pruning.end_offset)
    if start >= end:
        return []
    splits = view.splits(start, end, options.split_bytes, min_timestamp_ms=pruning.min_timestamp_ms)
    aborted = view.transactions(view.end_offset(until)).aborted if options.read_committed else None
    pieces = [
        replace(_piece(entry, view, split.start, split.end, size_bytes=split.size_bytes), aborted=aborted)
        for split in splits
    ]
    most = options.max_records_per_partition
    return pieces if most is None else [part for piece in pieces for part in _cut_by_records(piece, most)]


def _piece(entry: _Found, view: LogView, start: int, end: int, *, size_bytes: int) -> Piece:
    return Piece(
        partition=entry.partition,
        directory=entry.directory,
        start=start,
        end=end,
        size_bytes=size_bytes,
        state=view.state,
    )


def _start(
    view: LogView, options: ReadOptions, partition: TopicPartition, isolation: Isolation, until: str | None
) -> int:
    timestamp = _timestamp(options.starting, partition)
    if timestamp is not None:
        record = view.offset_for_timestamp(timestamp, isolation=isolation, until=until)
        if record is not None:
            return record.offset
        if options.starting_timestamp_falls_back_to_latest:
            return view.limit(isolation, until)
        raise TidelogError(
            f"{partition} has no record at or after timestamp {timestamp}; set startingOffsetsByTimestampStrategy to latest "
            "to read nothing there",
            path=view.directory,
        )
    offset = _offset(options.starting, partition)
    return view.log_start if offset == EARLIEST else offset


def _end(
    view: LogView,
    options: ReadOptions,
    partition: TopicPartition,
    isolation: Isolation,
    until: str | None,
    limit: int,
) -> int:
    timestamp = _timestamp(options.ending, partition)
    if timestamp is not None:
        record = view.offset_for_timestamp(timestamp, isolation=isolation, until=until)
        return limit if record is None else record.offset
    offset = _offset(options.ending, partition)
    return limit if offset == LATEST else offset


def _timestamp(bound: Bound, partition: TopicPartition) -> int | None:
    return bound.timestamp_ms if bound.timestamps_ms is None else bound.timestamps_ms[partition]


def _offset(bound: Bound, partition: TopicPartition) -> int:
    if bound.offsets is not None:
        return bound.offsets[partition]
    assert bound.everywhere is not None, "a bound has one of four forms"
    return bound.everywhere


def _hold_to_log(
    view: LogView, options: ReadOptions, partition: TopicPartition, start: int, end: int, limit: int
) -> tuple[int, int]:
    """The range within the log; what lies outside was lost, or was never there."""
    lost = []
    if start < view.log_start:
        lost.append(f"records from {start} on were asked for, but the log starts at {view.log_start}")
    if end > limit:
        lost.append(f"records up to {end} were asked for, but they end at {limit}")
    if start > end:
        lost.append(f"the start {start} lies after the end {end}")
    if lost and options.fail_on_data_loss:
        raise OffsetOutOfRangeError(
            f"{partition}: {'; '.join(lost)}. Some data may have been lost; set failOnDataLoss to false to read what is there",
            path=view.directory,
        )
    if lost:
        _log.warning("%s: %s; reading what is there", partition, "; ".join(lost))
    return max(start, view.log_start), min(end, limit)


def _cut_by_records(piece: Piece, most: int) -> Iterator[Piece]:
    """By offsets, which are never fewer than the records."""
    width = piece.end - piece.start
    for start in range(piece.start, piece.end, most):
        end = min(start + most, piece.end)
        yield replace(piece, start=start, end=end, size_bytes=piece.size_bytes * (end - start) // width)


def _at_least(pieces: list[Piece], count: int) -> list[Piece]:
    """Halve the largest pieces until there are ``count``, as long as one holds more than one offset."""
    parts = list(pieces)
    while 0 < len(parts) < count:
        number = max(range(len(parts)), key=lambda at: (parts[at].end - parts[at].start > 1, parts[at].size_bytes))
        piece = parts[number]
        if piece.end - piece.start <= 1:
            break
        middle = piece.start + (piece.end - piece.start) // 2
        half = piece.size_bytes // 2
        parts[number : number + 1] = [
            replace(piece, end=middle, size_bytes=piece.size_bytes - half),
            replace(piece, start=middle, size_bytes=half),
        ]
    return parts
