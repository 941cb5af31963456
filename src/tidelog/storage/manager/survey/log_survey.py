"""The segments' sizes and times and the high watermark of a log that is only read.

A segment's time is determined as a broker does it: from a finished ``.timeindex``, else from the batches after the
index's last entry, else from the file's modification time. The file's time also counts if the ``.timeindex`` is missing
and nothing else makes a broker recover the segment: a broker then creates an empty index and looks no further.

The high watermark is the log end if this broker has the only replica (as soon as it is the leader), else the
checkpoint's. If both are missing, it is the log end. The functions only read. Source: Kafka's
``LogSegment.largestTimestamp``, ``LogSegment.sanityCheck``, ``Partition.makeLeader``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeVar

from tidelog.model import FileMissingError, TopicPartition
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.storage.log.change.retention import RetentionSegment
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.time_lookup import indexed_largest, largest_timestamp
from tidelog.storage.log.view.view_state import ViewSegment
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.segment.file_names import FileKind

_T = TypeVar("_T")
_ATTEMPTS = 5


class TimeFrom(enum.StrEnum):
    """The source of a segment's time."""

    TIME_INDEX = "timeindex"
    RECORDS = "records"
    FILE = "file"
    """The file's modification time, because no record has a timestamp."""
    FILE_WITHOUT_INDEX = "file_without_timeindex"
    """The file's modification time, because the ``.timeindex`` is missing. Records do not count then."""


class HighWatermarkFrom(enum.StrEnum):
    ONLY_REPLICA = "only_replica"
    """The log end of an only replica, or of a log whose high watermark is only in memory."""
    CHECKPOINT = "checkpoint"
    LOG_END = "log_end"
    """The log end, because no other source exists."""


def while_files_move(view: LogView, survey: Callable[[], _T]) -> _T:
    """Return the result of a survey. Repeat it a few times if a broker deleted, rolled or compacted files meanwhile."""
    for _ in range(_ATTEMPTS):
        try:
            return survey()
        except FileMissingError:
            view.refresh()
    return survey()


def survey_segment(view: LogView, segment: ViewSegment) -> tuple[RetentionSegment, TimeFrom]:
    state = view.state
    following = state.segments.higher(segment.base_offset)
    end = state.end_position(segment)
    largest, found_in = _time(view, segment)
    found = RetentionSegment(
        base_offset=segment.base_offset,
        end_offset=view.log_end if following is None else following.base_offset,
        size_bytes=segment.size if end is None else end,
        largest_timestamp_ms=largest,
        modified_ms=view.fs.stat(segment.files.path(view.directory, FileKind.LOG)).mtime_ms,
    )
    return found, found_in


def _time(view: LogView, segment: ViewSegment) -> tuple[int | None, TimeFrom]:
    """Return the largest timestamp with its source, or None if the file's modification time counts."""
    state = view.state
    if state.condition is not DirectoryCondition.HELD and not state.was_recovered(segment):
        kinds = segment.files.kinds
        if FileKind.TIME_INDEX not in kinds and FileKind.INDEX in kinds:
            return None, TimeFrom.FILE_WITHOUT_INDEX
    with segment.open(view.fs, view.directory) as reader:
        indexed = indexed_largest(state, segment, reader)
        if indexed is not None:
            return indexed, TimeFrom.TIME_INDEX
        largest = largest_timestamp(state, segment, reader)
    return (None, TimeFrom.FILE) if largest < 0 else (largest, TimeFrom.RECORDS)


def survey_high_watermark(
    view: LogView, partition: TopicPartition, metadata: TopicMetadata
) -> tuple[int, HighWatermarkFrom]:
    if partition.topic == CLUSTER_METADATA_TOPIC or metadata.is_only_replica(partition):
        return view.log_end, HighWatermarkFrom.ONLY_REPLICA
    if partition in view.directory_state.high_watermarks:
        return view.end_offset(Until.HIGH_WATERMARK), HighWatermarkFrom.CHECKPOINT
    return view.log_end, HighWatermarkFrom.LOG_END
