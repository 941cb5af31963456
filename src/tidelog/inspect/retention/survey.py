"""The inputs of retention, read from log directories: sizes, times, high watermarks, settings.

A log is read only for a segment's time (``log_survey``). If that time lies in the future, the batch with it is read
too. The module only reads, several partitions in parallel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Self

from tidelog.inspect.retention.explain import SegmentOutlook, explain_retention
from tidelog.model import CancelledError, CorruptRecordError, TidelogError, TopicPartition
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.change.retention import RetentionState
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import each_partition
from tidelog.storage.log.view.time_lookup import TimestampOffset, first_at_or_after
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.manager.survey.log_survey import (
    HighWatermarkFrom,
    TimeFrom,
    survey_high_watermark,
    survey_segment,
    while_files_move,
)
from tidelog.storage.manager.survey.setting_sources import SettingSources, SourcedConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRetention:
    """``times_from`` and ``future`` are keyed by base offset. ``future`` holds the first record with the segment's
    largest timestamp if that lies in the future. ``state`` is None if ``error`` is set."""

    partition: TopicPartition
    settings: SourcedConfig
    state: RetentionState | None = None
    outlooks: tuple[SegmentOutlook, ...] = ()
    log_end: int = 0
    high_watermark_from: HighWatermarkFrom = HighWatermarkFrom.LOG_END
    times_from: Mapping[int, TimeFrom] = field(default_factory=dict)
    future: Mapping[int, TimestampOffset] = field(default_factory=dict)
    error: TidelogError | None = None

    def judged(self, now_ms: int, settings: SourcedConfig) -> Self:
        """Return the outlooks at a later moment, or with other settings. Nothing is read."""
        if self.state is None:
            return replace(self, settings=settings)
        state = replace(self.state, now_ms=now_ms, config=settings.config)
        return replace(self, settings=settings, state=state, outlooks=explain_retention(state))


def survey_retention(
    fs: FileSystem,
    path: Path,
    sources: SettingSources,
    *,
    now_ms: int,
    only: Iterable[TopicPartition] | None = None,
    threads: int | None = None,
) -> list[PartitionRetention]:
    """Return one result per partition, sorted by name. Raise DirectoryError if the directory cannot be listed, or
    ConfigError."""

    of_topic = cache(sources.of_topic)

    def survey(view: LogView, partition: TopicPartition, _tell: Advance) -> PartitionRetention:
        return survey_log(view, partition, of_topic(partition.topic), sources.metadata, now_ms=now_ms)

    return each_partition(fs, path, survey, only=only, threads=threads)


def survey_log(
    view: LogView,
    partition: TopicPartition,
    settings: SourcedConfig,
    metadata: TopicMetadata,
    *,
    now_ms: int,
    advance: Advance = lambda _bytes: None,
) -> PartitionRetention:
    """Return the result for one log. A TidelogError of reading it is in the result.

    ``advance`` receives the size of each surveyed ``.log``. Raise only the CancelledError of ``advance``.
    """
    try:
        return while_files_move(view, lambda: _surveyed(view, partition, settings, metadata, now_ms, advance))
    except CancelledError:
        raise
    except TidelogError as error:
        return PartitionRetention(partition=partition, settings=settings, error=error)


def _surveyed(
    view: LogView,
    partition: TopicPartition,
    settings: SourcedConfig,
    metadata: TopicMetadata,
    now_ms: int,
    advance: Advance,
) -> PartitionRetention:
    found = []
    for segment in view.state.segments:
        found.append(survey_segment(view, segment))
        advance(segment.size)
    high_watermark, high_watermark_from = survey_high_watermark(view, partition, metadata)
    state = RetentionState(
        segments=tuple(segment for segment, _ in found),
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
        times_from={segment.base_offset: time_from for segment, time_from in found},
        future=_future(view, state),
    )


def _future(view: LogView, state: RetentionState) -> dict[int, TimestampOffset]:
    found = {}
    for segment in state.segments:
        largest = segment.largest_timestamp_ms
        if largest is None or largest <= state.now_ms:
            continue
        try:
            record = first_at_or_after(view, largest, segment.base_offset, segment.end_offset)
        except CorruptRecordError:
            continue  # the time stands even so, and ``verify`` reports the damage
        if record is not None:
            found[segment.base_offset] = record
    return found
