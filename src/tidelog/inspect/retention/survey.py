"""What retention has to decide by, read from log directories: sizes, times, high watermarks, settings.

A segment's time is what a broker takes it from: the ``.timeindex`` where its owner finished that, else the batches
behind the index's last entry, else the time of the file. A ``.timeindex`` that is missing where nothing else makes a
broker recover the segment leaves it the time of the file too: a broker makes an empty one and looks no further.
No log is read but for that, and, where a timestamp lies in the future, for the one batch that has it.

The high watermark is the log end where this broker has the only replica (as soon as it leads), else what the
checkpoint says; without either, the log end. Reads only; partitions in parallel. Called by: command line, Python.
Source: Kafka's ``LogSegment.largestTimestamp``, ``LogSegment.sanityCheck``, ``Partition.makeLeader``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.inspect.each_partition import Advance, each_partition
from tidelog.inspect.retention.explain import SegmentOutlook, explain_retention
from tidelog.inspect.retention.settings import RetentionSettings, SettingSources
from tidelog.model import CorruptRecordError, FileMissingError, TidelogError, TopicPartition
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.retention import RetentionSegment, RetentionState
from tidelog.storage.log.time_lookup import TimestampOffset, first_at_or_after, indexed_largest, largest_timestamp
from tidelog.storage.log.view.directory_state import Condition
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.view_state import ViewSegment
from tidelog.storage.manager.cluster_metadata import METADATA_TOPIC
from tidelog.storage.segment.file_names import FileKind

_ATTEMPTS = 5


class TimeFrom(enum.StrEnum):
    """Where a segment's time comes from."""

    TIME_INDEX = "timeindex"
    RECORDS = "records"
    FILE = "file"
    """No record has a timestamp."""
    FILE_WITHOUT_INDEX = "file_without_timeindex"
    """The ``.timeindex`` is missing, whatever the records say."""


class HighWatermarkFrom(enum.StrEnum):
    ONLY_REPLICA = "only_replica"
    """The log end, of the only replica or of a log whose high watermark is kept in memory only."""
    CHECKPOINT = "checkpoint"
    LOG_END = "log_end"
    """The log end, since nothing says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRetention:
    """By base offset: ``times_from``, and ``future``, the first record with the largest timestamp if that lies ahead.

    ``state`` is None where ``error`` says why.
    """

    partition: TopicPartition
    settings: RetentionSettings
    state: RetentionState | None = None
    outlooks: tuple[SegmentOutlook, ...] = ()
    log_end: int = 0
    high_watermark_from: HighWatermarkFrom = HighWatermarkFrom.LOG_END
    times_from: Mapping[int, TimeFrom] = field(default_factory=dict)
    future: Mapping[int, TimestampOffset] = field(default_factory=dict)
    error: TidelogError | None = None


def survey_retention(
    fs: FileSystem,
    path: Path,
    sources: SettingSources,
    *,
    now_ms: int,
    only: Iterable[TopicPartition] | None = None,
    threads: int | None = None,
) -> list[PartitionRetention]:
    """One a partition, in order of names. DirectoryError where the directory cannot be listed; ConfigError."""

    def survey(view: LogView, partition: TopicPartition, _tell: Advance) -> PartitionRetention:
        of_topic = sources.of_topic(partition.topic)
        try:
            return _survey_partition(view, partition, of_topic, sources, now_ms)
        except TidelogError as error:
            return PartitionRetention(partition=partition, settings=of_topic, error=error)

    return each_partition(fs, path, survey, only=only, threads=threads)


def _survey_partition(
    view: LogView, partition: TopicPartition, settings: RetentionSettings, sources: SettingSources, now_ms: int
) -> PartitionRetention:
    for _ in range(_ATTEMPTS):
        try:
            return _surveyed(view, partition, settings, sources, now_ms)
        except FileMissingError:
            view.refresh()  # a broker deleted, rolled or compacted meanwhile
    return _surveyed(view, partition, settings, sources, now_ms)


def _surveyed(
    view: LogView, partition: TopicPartition, settings: RetentionSettings, sources: SettingSources, now_ms: int
) -> PartitionRetention:
    times_from: dict[int, TimeFrom] = {}
    segments = tuple(_segment(view, segment, times_from) for segment in view.state.segments)
    high_watermark, high_watermark_from = _high_watermark(view, partition, sources)
    state = RetentionState(
        segments=segments,
        config=settings.config,
        log_start_offset=view.log_start,
        high_watermark=high_watermark,
        now_ms=now_ms,
    )
    return PartitionRetention(
        partition=partition,
        settings=settings,
        state=state,
        outlooks=explain_retention(state),
        log_end=view.log_end,
        high_watermark_from=high_watermark_from,
        times_from=times_from,
        future=_future(view, state),
    )


def _segment(view: LogView, segment: ViewSegment, times_from: dict[int, TimeFrom]) -> RetentionSegment:
    state = view.state
    following = state.segments.higher(segment.base_offset)
    end = state.end_position(segment)
    largest, found_in = _time(view, segment)
    times_from[segment.base_offset] = found_in
    return RetentionSegment(
        base_offset=segment.base_offset,
        end_offset=view.log_end if following is None else following.base_offset,
        size_bytes=segment.size if end is None else end,
        largest_timestamp_ms=largest,
        modified_ms=view.fs.stat(segment.files.path(view.directory, FileKind.LOG)).mtime_ms,
    )


def _time(view: LogView, segment: ViewSegment) -> tuple[int | None, TimeFrom]:
    """The largest timestamp, None where the time of the file counts."""
    state = view.state
    if state.condition is not Condition.HELD and not state.was_recovered(segment):
        kinds = segment.files.kinds
        if FileKind.TIME_INDEX not in kinds and FileKind.INDEX in kinds:
            return None, TimeFrom.FILE_WITHOUT_INDEX
    with segment.open(view.fs, view.directory) as reader:
        indexed = indexed_largest(state, segment, reader)
        if indexed is not None:
            return indexed, TimeFrom.TIME_INDEX
        largest = largest_timestamp(state, segment, reader)
    return (None, TimeFrom.FILE) if largest < 0 else (largest, TimeFrom.RECORDS)


def _high_watermark(view: LogView, partition: TopicPartition, sources: SettingSources) -> tuple[int, HighWatermarkFrom]:
    if partition.topic == METADATA_TOPIC or sources.metadata.is_only_replica(partition):
        return view.log_end, HighWatermarkFrom.ONLY_REPLICA
    if partition in view.directory_state.high_watermarks:
        return view.end_offset(Until.HIGH_WATERMARK), HighWatermarkFrom.CHECKPOINT
    return view.log_end, HighWatermarkFrom.LOG_END


def _future(view: LogView, state: RetentionState) -> dict[int, TimestampOffset]:
    found = {}
    for segment in state.segments:
        largest = segment.largest_timestamp_ms
        if largest is None or largest <= state.now_ms:
            continue
        try:
            record = first_at_or_after(view, largest, segment.base_offset, segment.end_offset)
        except CorruptRecordError:
            continue  # the time stands all the same; ``verify`` tells of the damage
        if record is not None:
            found[segment.base_offset] = record
    return found
