"""The retention of many logs in small values: the bytes that go at once, with time, with appends, or never.

A segment counts once. Its state (``segment_state``) gives the row; a row may join several states.

Next to them lie files that no rule keeps: ``.deleted`` files, unfinished files of a crash, and directories that are
being removed. Bytes of segments are those of their ``.log`` files. The module only reads, several logs in parallel.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.config.columns import LONG_MAX
from tidelog.inspect.retention.segment_state import SegmentState, future_segments, segment_rules
from tidelog.inspect.retention.survey import PartitionRetention, survey_log
from tidelog.model import TidelogError, TopicPartition
from tidelog.runtime.progress import Advance, one_at_a_time
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.load.listing import sort_names
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import each_partition
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.manager.survey.setting_sources import SourcedConfig


class Keeper(enum.StrEnum):
    """The rows. A segment that waits for one with a time in the future counts as ``FUTURE``, and another waiting one as
    ``TIME``, also if ``retention.bytes`` may delete it earlier."""

    NEXT_CHECK = "next check"
    EMPTY = "empty active segment"
    HIGH_WATERMARK = "high watermark"
    SNAPSHOTS = "snapshots"
    POLICY = "cleanup.policy"
    FUTURE = "future timestamp"
    TIME = "retention.ms"
    SIZE = "retention.bytes"
    NO_LIMIT = "no limit"

    @property
    def is_for_ever(self) -> bool:
        """True if neither time nor appends delete the segment, as the settings are."""
        return self in (Keeper.EMPTY, Keeper.SNAPSHOTS, Keeper.POLICY, Keeper.NO_LIMIT)


_KEEPERS = {
    SegmentState.DELETED_BY_LOG_START: Keeper.NEXT_CHECK,
    SegmentState.DELETED_BY_SIZE: Keeper.NEXT_CHECK,
    SegmentState.DELETED_BY_TIME: Keeper.NEXT_CHECK,
    SegmentState.ACTIVE: Keeper.EMPTY,
    SegmentState.HIGH_WATERMARK: Keeper.HIGH_WATERMARK,
    SegmentState.SNAPSHOT: Keeper.SNAPSHOTS,
    SegmentState.COMPACTION: Keeper.POLICY,
    SegmentState.NO_POLICY: Keeper.POLICY,
    SegmentState.FUTURE: Keeper.FUTURE,
    SegmentState.WAITS: Keeper.TIME,
    SegmentState.TIME: Keeper.TIME,
    SegmentState.TIME_AND_SIZE: Keeper.TIME,
    SegmentState.SIZE: Keeper.SIZE,
    SegmentState.UNLIMITED: Keeper.NO_LIMIT,
}


@dataclass(frozen=True, slots=True)
class Share:
    """A number of segments or files, and their bytes."""

    count: int = 0
    bytes: int = 0

    def __add__(self, other: Share) -> Share:
        return Share(self.count + other.count, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRetention:
    """The log in ``directory``. ``goes`` has a moment (ms), the segments and their bytes for each time of deletion,
    ascending; the next check is not among them. ``error`` is the reason for missing values."""

    partition: TopicPartition
    directory: Path
    settings: SourcedConfig
    kept: Mapping[Keeper, Share] = field(default_factory=dict)
    goes: tuple[tuple[int, int, int], ...] = ()
    deleted_files: Share = Share()
    """Files ``.deleted``, which a broker removes after ``file.delete.delay.ms`` or at its next start."""
    unfinished_files: Share = Share()
    """Files of an interrupted clean, split or write, which the next start removes."""
    error: TidelogError | None = None


def summarize_retention(
    fs: FileSystem,
    path: Path,
    settings_of: Callable[[str], SourcedConfig],
    metadata: TopicMetadata,
    *,
    now_ms: int,
    only: Iterable[TopicPartition] | None = None,
    threads: int | None = None,
    advance: Advance = lambda _logs: None,
) -> list[LogRetention]:
    """Return one value for each partition, sorted by name. ``settings_of`` takes a topic, and ``advance`` receives the
    number of finished logs. Raise DirectoryError if the directory cannot be listed."""
    advance = one_at_a_time(advance)

    def summarize(view: LogView, partition: TopicPartition, _tell: Advance) -> LogRetention:
        found = survey_log(view, partition, settings_of(partition.topic), metadata, now_ms=now_ms)
        summary = summary_of(
            found, view.directory, {} if found.error is not None else view.fs.list_sizes(view.directory)
        )
        advance(1)
        return summary

    return each_partition(fs, path, summarize, only=only, threads=threads)


def summary_of(found: PartitionRetention, directory: Path, sizes: Mapping[str, int]) -> LogRetention:
    """Return the sums over a log's segments. ``sizes`` are those of all files in its directory. Pure."""
    kept: dict[Keeper, Share] = {}
    goes: dict[int, Share] = {}
    ahead = future_segments(found)
    for outlook, rule in zip(found.outlooks, segment_rules(found), strict=True):
        keeper = Keeper.FUTURE if rule is SegmentState.WAITS and outlook.waits_for in ahead else _KEEPERS[rule]
        size = Share(1, outlook.segment.size_bytes)
        kept[keeper] = kept.get(keeper, Share()) + size
        if keeper in (Keeper.TIME, Keeper.FUTURE) and outlook.goes_at_ms is not None:
            at = min(outlook.goes_at_ms, LONG_MAX)
            goes[at] = goes.get(at, Share()) + size
    listing = sort_names(sizes, sizes)
    unfinished = [*map(str, (*listing.cleaned, *listing.invalid_swaps, *listing.orphans)), *listing.temporary]
    return LogRetention(
        partition=found.partition,
        directory=directory,
        settings=found.settings,
        kept=kept,
        goes=tuple((at, goes[at].count, goes[at].bytes) for at in sorted(goes)),
        deleted_files=_share(sizes, [str(file) for file in listing.deleted]),
        unfinished_files=_share(sizes, unfinished),
        error=found.error,
    )


def _share(sizes: Mapping[str, int], names: Sequence[str]) -> Share:
    return Share(len(names), sum(max(0, sizes[name]) for name in names))
