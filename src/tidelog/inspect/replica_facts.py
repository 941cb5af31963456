"""The offsets, the size and the newest timestamp of one replica, at a cost that does not grow with its segments.

From a ``.log`` only the bytes are read that are needed to find the log end: after an unclean shutdown those are all
unflushed segments. Reads only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tidelog.model import TidelogError
from tidelog.storage.checkpoint.partition_metadata import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.epoch.leader_epoch_file import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.time_lookup import largest_timestamp
from tidelog.storage.manager.survey.log_survey import while_files_move

T = TypeVar("T")
_NEWEST_SEGMENTS = 2
"""The newest timestamp is that of these last segments: the active one may be empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFacts:
    """``newest_timestamp`` is the largest one of the last two segments in ms, None without any. ``error`` is the reason
    for missing values."""

    directory: Path
    segments: int | None = None
    bytes: int | None = None
    """The bytes of all files."""
    log_start: int | None = None
    high_watermark: int | None = None
    log_end: int | None = None
    newest_timestamp: int | None = None
    topic_id: str | None = None
    leader_epoch: int | None = None
    error: TidelogError | None = None


def describe_replica(view: LogView) -> ReplicaFacts:
    """Return the facts. A TidelogError is in them."""
    try:
        return while_files_move(view, lambda: _facts(view))
    except TidelogError as error:
        return ReplicaFacts(directory=view.directory, error=error)


def _facts(view: LogView) -> ReplicaFacts:
    state, fs, directory = view.state, view.fs, view.directory
    times = []
    for segment in list(state.segments)[-_NEWEST_SEGMENTS:]:
        with segment.open(fs, directory) as reader:
            times.append(largest_timestamp(state, segment, reader))
    problems: list[TidelogError] = []
    topic_id = _readable(lambda: PartitionMetadata.read(fs, directory / PARTITION_METADATA_FILE), problems)
    epochs = _readable(lambda: LeaderEpochCheckpoint.read(fs, directory / LEADER_EPOCH_CHECKPOINT), problems)
    return ReplicaFacts(
        directory=directory,
        segments=len(state.segments),
        bytes=sum(size for size in fs.list_sizes(directory).values() if size > 0),
        log_start=view.log_start,
        high_watermark=view.end_offset(Until.HIGH_WATERMARK),
        log_end=view.log_end,
        newest_timestamp=max((time for time in times if time >= 0), default=None),
        topic_id=None if topic_id is None else topic_id.topic_id_text,
        leader_epoch=epochs[-1].epoch if epochs else None,
        error=problems[0] if problems else None,
    )


def _readable(read: Callable[[], T], problems: list[TidelogError]) -> T | None:
    """Return a small file's contents. An error goes to ``problems``, because the log can be read without the file."""
    try:
        return read()
    except TidelogError as error:
        problems.append(error)
        return None
