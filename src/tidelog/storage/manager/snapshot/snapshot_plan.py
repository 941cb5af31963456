"""The plan of a snapshot of log directories, made by reading only, also while a broker is running.

Each partition has its end, its files (``partition_parts``), and the transactions that are open at the end. While an
owner writes, the plan is a forecast: the snapshot plans each partition again when it copies it. ``__cluster_metadata``
is copied whole, so the topics, their settings and ACLs are those of now.

These are left out: partitions that are being added or removed (``-future``, ``-delete``, ``-stray``), directories of
other names, and files of the log directory apart from ``meta.properties`` and ``bootstrap.checkpoint``. Checkpoints and
the clean shutdown marker are new files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidelog.model import CheckpointError, TidelogError, TopicPartition
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.runtime.parallel import run_parallel
from tidelog.runtime.progress import Advance, one_at_a_time
from tidelog.storage.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.view.directory_state import DirectoryState, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import REMOTE_INDEX_CACHE, live_partitions, require_log_directory
from tidelog.storage.log.view.row_stream import ReadRange
from tidelog.storage.log.view.view_producers import read_producers
from tidelog.storage.manager.directory.unfinished_directory import require_new, unfinished_path
from tidelog.storage.manager.snapshot.open_transactions import (
    KnownId,
    OpenTransactionPolicy,
    SettledTransaction,
    TransactionEnd,
    by_producer,
    choose_marker,
    read_ids,
)
from tidelog.storage.manager.snapshot.partition_end import EndedBy, Moment, PartitionEnd
from tidelog.storage.manager.snapshot.partition_parts import PartitionParts, Sharing, parts_of, plan_parts
from tidelog.storage.manager.survey.log_survey import survey_high_watermark, while_files_move
from tidelog.storage.manager.survey.setting_sources import SettingSources, read_setting_sources
from tidelog.storage.producer import ProducerEntry

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
"""The metadata with which a KRaft cluster began, written by ``kafka-storage format``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOptions:
    moment: Moment
    now_ms: int
    policy: OpenTransactionPolicy = OpenTransactionPolicy.ABORT
    links: bool = True
    """False copies every file, for a disk that will be removed."""
    threads: int | None = None
    """None means one thread per processor."""

    @property
    def marker_ms(self) -> int:
        """The timestamp of markers: the snapshot's time, but not in the future."""
        return self.now_ms if self.moment.at_ms is None else max(0, min(self.moment.at_ms, self.now_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPaths:
    """A log directory and the place of its snapshot."""

    source: Path
    target: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOutlook:
    """The outlook of one partition. ``parts`` is None if it cannot be read (``error``)."""

    partition: TopicPartition
    parts: PartitionParts | None = None
    transactions: tuple[SettledTransaction, ...] = ()
    compacted_past_end: bool = False
    """The cleaner has compared records below the end with later ones: keys may be missing that were written again."""
    error: TidelogError | None = None

    @property
    def name(self) -> str:
        return self.partition.directory_name


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryOutlook:
    """The outlook of one log directory, with its partitions sorted by name."""

    paths: SnapshotPaths
    state: DirectoryState
    partitions: tuple[PartitionOutlook, ...]
    left_out: tuple[str, ...]
    """Names of directories that are not part of the snapshot."""
    same_disk: bool
    """False if the target is on another disk, so that every file is copied."""
    leftover: Path | None
    """An unfinished snapshot with this target. It is removed first."""

    @property
    def linked_bytes(self) -> int:
        return sum(one.parts.linked_bytes for one in self.partitions if one.parts is not None)

    @property
    def copied_bytes(self) -> int:
        """The bytes that the snapshot takes from the free space of its disk."""
        return sum(one.parts.copied_bytes for one in self.partitions if one.parts is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlan:
    directories: tuple[DirectoryOutlook, ...]
    options: SnapshotOptions
    sources: Mapping[Path, SettingSources] = field(repr=False)

    @property
    def partitions(self) -> list[PartitionOutlook]:
        return [one for directory in self.directories for one in directory.partitions]

    @property
    def work_bytes(self) -> int:
        return sum(directory.linked_bytes + directory.copied_bytes for directory in self.directories)

    @property
    def errors(self) -> list[TidelogError]:
        return [one.error for one in self.partitions if one.error is not None]

    @property
    def unknown_partitions(self) -> list[TopicPartition]:
        """Partitions with an offset that are in none of the directories."""
        known = {one.partition for one in self.partitions}
        return sorted(set(self.options.moment.at_offsets) - known)


def plan_snapshot(
    fs: FileSystem, pairs: Sequence[SnapshotPaths], options: SnapshotOptions, *, advance: Advance = lambda _bytes: None
) -> SnapshotPlan:
    """Plan the snapshots of a broker's log directories. ``advance`` gets 1 for each planned partition.

    Raise DirectoryError if a source is no log directory, or a target exists or lies inside its source. A partition that
    cannot be read is an error in the plan, which then cannot be applied.
    """
    for pair in pairs:
        require_log_directory(fs, pair.source)
        require_new(fs, pair.target, source=pair.source)
    sources = read_setting_sources(fs, [pair.source for pair in pairs])
    tell = one_at_a_time(advance)
    planners = [DirectoryPlanner(fs, pair, sources[pair.source], options) for pair in pairs]
    planned = [planner.plan_all(tell) for planner in planners]
    ids = by_producer(known for _, found in planned for known in found)
    directories = [planner.outlook(parts, ids) for planner, (parts, _) in zip(planners, planned, strict=True)]
    return SnapshotPlan(directories=tuple(directories), options=options, sources=sources)


@dataclass(slots=True, kw_only=True)
class _Planned:
    partition: TopicPartition
    parts: PartitionParts | None = None
    open: list[ProducerEntry] = field(default_factory=list)
    ids: list[KnownId] = field(default_factory=list)
    error: TidelogError | None = None


class DirectoryPlanner:
    """Plans the partitions of one log directory. ``refresh`` reads its lock and checkpoints again."""

    def __init__(self, fs: FileSystem, paths: SnapshotPaths, sources: SettingSources, options: SnapshotOptions) -> None:
        self.paths = paths
        self.sources = sources
        self._fs = ReadOnlyFileSystem(fs)
        self._options = options
        self.same_disk = fs.stat(paths.source).disk == fs.stat(nearest_directory(fs, paths.target)).disk
        self.state = read_directory_state(self._fs, paths.source)

    def refresh(self) -> None:
        self.state = read_directory_state(self._fs, self.paths.source, self.state)

    def partitions(self) -> list[TopicPartition]:
        return list(live_partitions(self._fs, self.paths.source))

    def cleaned_offsets(self) -> dict[TopicPartition, int]:
        """Return the offsets at which the next cleans begin. An unreadable checkpoint counts as empty."""
        try:
            return OffsetCheckpoint.read(self._fs, self.paths.source / CLEANER_CHECKPOINT)
        except CheckpointError:
            return {}

    def view(self, partition: TopicPartition) -> LogView:
        return LogView(self._fs, self.paths.source / partition.directory_name, directory_state=self.state)

    def plan(self, view: LogView, partition: TopicPartition) -> PartitionParts:
        """Plan one partition. Raise CorruptRecordError if a batch on the way to its end is damaged."""
        if partition.topic == CLUSTER_METADATA_TOPIC:
            end = PartitionEnd(offset=view.log_end, by=EndedBy.LOG_END, log_start=view.log_start, log_end=view.log_end)
            return parts_of(view, partition, end, Sharing(below=0, allowed=False))
        watermark, _ = survey_high_watermark(view, partition, self.sources.metadata)
        sharing = Sharing(below=watermark, allowed=self._options.links and self.same_disk)
        return plan_parts(view, partition, self._options.moment, sharing)

    def plan_all(self, tell: Advance) -> tuple[list[_Planned], list[KnownId]]:
        """Return the plans of all partitions, and the transactional ids at their ends."""

        def run(partition: TopicPartition) -> _Planned:
            planned = self._plan_one(partition)
            tell(1)
            return planned

        found = run_parallel(run, self.partitions(), name="partition", threads=self._options.threads)
        return found, [known for one in found for known in one.ids]

    def outlook(self, planned: Sequence[_Planned], ids: Mapping[int, KnownId]) -> DirectoryOutlook:
        cleaned = self.cleaned_offsets()
        leftover = unfinished_path(self.paths.target)
        return DirectoryOutlook(
            paths=self.paths,
            state=self.state,
            partitions=tuple(self._outlook_of(one, ids, cleaned) for one in planned),
            left_out=tuple(_left_out(self._fs, self.paths.source, {one.partition for one in planned})),
            same_disk=self.same_disk,
            leftover=leftover if self._fs.exists(leftover) else None,
        )

    def _plan_one(self, partition: TopicPartition) -> _Planned:
        view, planned = self.view(partition), _Planned(partition=partition)
        try:
            while_files_move(view, lambda: self._read(view, planned))
        except TidelogError as error:
            planned.parts, planned.error = None, error
        return planned

    def _read(self, view: LogView, planned: _Planned) -> None:
        parts = self.plan(view, planned.partition)
        if planned.partition.topic != CLUSTER_METADATA_TOPIC:
            producers = read_producers(view, parts.end.offset) if parts.parts else {}
            planned.open = [one for one in producers.values() if one.transaction_first_offset is not None]
        if planned.partition.topic == TRANSACTION_STATE_TOPIC:
            rows = view.batches(ReadRange(start=view.log_start, end=parts.end.offset))
            batches = ((one.buffer, one.table, one.base_position) for one in rows)
            planned.ids = list(read_ids(batches, parts.end.offset).values())
        planned.parts = parts

    def _outlook_of(
        self, planned: _Planned, ids: Mapping[int, KnownId], cleaned: Mapping[TopicPartition, int]
    ) -> PartitionOutlook:
        end = None if planned.parts is None else planned.parts.end
        is_truncated = end is not None and end.offset < end.log_end
        cleaned_to = cleaned.get(planned.partition, 0)
        return PartitionOutlook(
            partition=planned.partition,
            parts=planned.parts,
            transactions=tuple(self._forecast(entry, ids.get(entry.producer_id)) for entry in planned.open),
            compacted_past_end=is_truncated and end is not None and cleaned_to > end.offset,
            error=planned.error,
        )

    def _forecast(self, entry: ProducerEntry, known: KnownId | None) -> SettledTransaction:
        end = TransactionEnd.KEPT
        if self._options.policy is OpenTransactionPolicy.ABORT:
            committed = choose_marker(entry, known).committed
            end = TransactionEnd.COMMITTED if committed else TransactionEnd.ABORTED
        return SettledTransaction(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            first_offset=-1 if entry.transaction_first_offset is None else entry.transaction_first_offset,
            end=end,
            transactional_id=None if known is None else known.name,
        )


def nearest_directory(fs: FileSystem, path: Path) -> Path:
    """Return the nearest existing directory above ``path``."""
    return next(parent for parent in path.absolute().parents if fs.exists(parent))


def _left_out(fs: FileSystem, path: Path, planned: set[TopicPartition]) -> list[str]:
    taken = {partition.directory_name for partition in planned}
    return [name for name in fs.list_directories(path) if name not in taken and name != REMOTE_INDEX_CACHE]
