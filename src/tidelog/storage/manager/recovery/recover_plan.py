"""The plan of recovering a log directory, made by reading only, for people and for tests.

For each partition, a plan lists the files to remove and the swaps to complete after an interrupted operation. It lists
the segments to recover with the reason, the indexes to trim, and the bytes to read and write. A plan is a forecast:
only reading the bytes finds a damaged batch, and a live directory changes. Recovery decides everything again. Source of
the steps: Kafka's ``LogManager`` and ``LogLoader``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidelog.model import CheckpointError, DirectoryError, TopicPartition
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
from tidelog.storage.fs import TEMPORARY_SUFFIX, FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.load.leftover_files import CleanupPlan, plan_cleanup, replaced_offsets
from tidelog.storage.log.load.listing import PartitionListing, list_partition, sort_names
from tidelog.storage.log.load.load_plan import SegmentToRecover, plan_recovery
from tidelog.storage.log.load.overflow_split import is_overflowed
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState, read_directory_state
from tidelog.storage.log.view.partitions import REMOTE_INDEX_CACHE
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.manager.staged.roll_forward import find_staged
from tidelog.storage.manager.staged.staged_commit import StagedCommit, read_intent
from tidelog.storage.manager.survey.setting_sources import read_setting_sources
from tidelog.storage.segment.file_names import DirectoryPurpose, FileKind, PartitionDirectoryName, SegmentFileName

_ENTRY_BYTES = {FileKind.INDEX: 8, FileKind.TIME_INDEX: 12}
_NEVER_EXPIRE_MS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverOptions:
    """``topic_settings`` (Kafka's keys) override the cluster metadata, which overrides ``config``."""

    now_ms: int
    """The time at which idle producers expire."""
    config: LogConfig = field(default_factory=LogConfig)
    topic_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    use_cluster_metadata: bool = True
    elsewhere: TopicMetadata | None = None
    """The metadata for directories without any, from ZooKeeper."""
    sibling_directories: tuple[Path, ...] = ()
    """Log directories. The metadata log of one is used for others of the same broker that have none."""
    threads: int | None = None
    """None means one thread per processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """Sizes are in bytes."""

    name: str
    """The directory's name. For a ``-future`` log it differs from the partition's."""
    topic_partition: TopicPartition
    config: LogConfig
    recovery_point: int
    log_start_offset: int
    clean_shutdown: bool
    leftovers: CleanupPlan
    leftover_bytes: int
    recover: tuple[SegmentToRecover, ...]
    splits: tuple[int, ...]
    """Base offsets of segments with offsets that no index can hold. They are split first."""
    trims: tuple[str, ...]
    """Index files that will shrink to their entries."""
    read_bytes: int
    write_bytes: int
    """The most bytes that rebuilt indexes and split segments write."""

    @property
    def is_settled(self) -> bool:
        """True if there is no file to remove or rename and no segment to recover."""
        return not self.leftovers and not self.recover


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverPlan:
    """The plan for a complete log directory, with its partitions sorted by name."""

    path: Path
    condition: DirectoryCondition
    holder: int | None
    """The id of the process that holds ``.lock``. While it runs, the plan cannot be applied."""
    partitions: tuple[PartitionPlan, ...]
    untouched: tuple[str, ...]
    """Directories that do not change: ``-delete``, ``-stray`` and any that is no log."""
    temporary: tuple[str, ...]
    """Unfinished checkpoints in the log directory, to be removed."""
    warnings: tuple[str, ...]
    metadata: TopicMetadata
    commit: StagedCommit | None
    """The decided commit, which must be carried out before anything else."""
    staged: tuple[str, ...]
    """Staged files that the commit does not name, to be removed."""

    @property
    def read_bytes(self) -> int:
        return sum(partition.read_bytes for partition in self.partitions)

    @property
    def write_bytes(self) -> int:
        return sum(partition.write_bytes for partition in self.partitions)

    @property
    def free_bytes_needed(self) -> int:
        """The upper bound of the free bytes needed. Removing old indexes first may free some of them."""
        return self.write_bytes

    @property
    def segments(self) -> int:
        return sum(len(partition.recover) for partition in self.partitions)


def plan_directory(
    fs: FileSystem,
    path: Path,
    options: RecoverOptions,
    *,
    only: Collection[TopicPartition] | None = None,
    held_here: bool = False,
) -> RecoverPlan:
    """Plan a log directory without changing or locking it. Raise DirectoryError if it cannot be listed.

    ``only`` limits the forecast to these partitions, and that plan cannot be applied. ``held_here`` means that the
    caller holds the directory's lock, so the last owner's marker decides its condition.
    """
    fs = ReadOnlyFileSystem(fs)
    state = read_directory_state(fs, path, held_here=held_here)
    metadata = _metadata(fs, path, options)
    planner = _Planner(fs, path, options, state, metadata, _node_id(fs, path))
    partitions, untouched, temporary, warnings = [], [], [], list(state.warnings)
    commit = read_intent(fs, path)
    for name in fs.list_names(path):
        if not fs.stat(path / name).is_dir:
            if name.endswith(TEMPORARY_SUFFIX):
                temporary.append(name)
            continue
        try:
            directory_name = PartitionDirectoryName.parse(name)
        except DirectoryError as error:
            untouched.append(name)
            if name != REMOTE_INDEX_CACHE:
                warnings.append(
                    f"{error.message}; a broker refuses to start on a log directory that contains this name"
                )
            continue
        if directory_name.purpose in (DirectoryPurpose.DELETE, DirectoryPurpose.STRAY):
            untouched.append(name)
        elif only is None or directory_name.topic_partition in only:
            partitions.append(planner.plan_partition(name, directory_name.topic_partition))
    return RecoverPlan(
        path=path,
        condition=state.condition,
        holder=state.holder,
        partitions=tuple(partitions),
        untouched=tuple(untouched),
        temporary=tuple(temporary),
        warnings=tuple(warnings),
        metadata=metadata,
        commit=commit,
        staged=find_staged(fs, path, commit),
    )


def plan_log(
    fs: FileSystem, path: Path, name: str, options: RecoverOptions, *, state: DirectoryState, metadata: TopicMetadata
) -> PartitionPlan:
    """Plan one log of a log directory whose state and cluster metadata are known. ``name`` is its directory's name."""
    fs = ReadOnlyFileSystem(fs)
    planner = _Planner(fs, path, options, state, metadata, _node_id(fs, path))
    return planner.plan_partition(name, PartitionDirectoryName.parse(name).topic_partition)


def _metadata(fs: FileSystem, path: Path, options: RecoverOptions) -> TopicMetadata:
    if not options.use_cluster_metadata:
        return TopicMetadata()
    paths = (path, *options.sibling_directories)
    return read_setting_sources(fs, paths, elsewhere=options.elsewhere)[path].metadata


class _Planner:
    def __init__(
        self,
        fs: FileSystem,
        path: Path,
        options: RecoverOptions,
        state: DirectoryState,
        metadata: TopicMetadata,
        node_id: int | None,
    ) -> None:
        self._fs = fs
        self._path = path
        self._options = options
        self._state = state
        self._metadata = metadata
        self._node_id = node_id

    def plan_partition(self, name: str, topic_partition: TopicPartition) -> PartitionPlan:
        fs, directory = self._fs, self._path / name
        listing = list_partition(fs, directory)
        leftovers = plan_cleanup(listing, replaced_offsets(fs, directory, listing))
        # Brokers have no checkpoint entries for the metadata log, so they recover all of it at every startup.
        is_metadata = topic_partition.topic == CLUSTER_METADATA_TOPIC
        clean = self._state.condition is DirectoryCondition.CLEAN and not is_metadata
        draft = PartitionPlan(
            name=name,
            topic_partition=topic_partition,
            config=self._config(topic_partition.topic),
            recovery_point=0 if is_metadata else self._state.recovery_points.get(topic_partition, 0),
            log_start_offset=0 if is_metadata else self._state.log_start_offsets.get(topic_partition, 0),
            clean_shutdown=clean,
            leftovers=leftovers,
            leftover_bytes=sum(fs.stat(directory / file).size for file in leftovers.removals),
            recover=(),
            splits=(),
            trims=(),
            read_bytes=0,
            write_bytes=0,
        )
        return self._with_segments(draft, directory, listing)

    def _with_segments(self, draft: PartitionPlan, directory: Path, listing: PartitionListing) -> PartitionPlan:
        """Complete the plan with the needs of its segments, as they will be after removals and renames."""
        sources = _settled_names(listing, draft.leftovers)
        settled = sort_names(sources)
        swapped = frozenset(segment.base_offset for segment in listing.swaps)
        load_plan = plan_recovery(
            self._fs,
            directory,
            settled,
            clean_shutdown=draft.clean_shutdown,
            recovery_point=draft.recovery_point,
            unchecked=swapped,
        )
        sizes = {name: self._fs.stat(directory / source).size for name, source in sources.items()}
        read_bytes = write_bytes = 0
        trims, splits = [], []
        for part in load_plan.recover:
            log_bytes = sizes[str(SegmentFileName(part.base_offset, FileKind.LOG))]
            most_entries = log_bytes // max(1, draft.config.index_interval_bytes) + 1
            read_bytes += log_bytes
            if part.base_offset not in swapped and is_overflowed(
                self._fs, directory, part.base_offset, settled.base_offsets
            ):
                splits.append(part.base_offset)
                write_bytes += log_bytes
            for kind, entry_bytes in _ENTRY_BYTES.items():
                write_bytes += most_entries * entry_bytes
                name = str(SegmentFileName(part.base_offset, kind))
                if sizes.get(name, 0) > most_entries * entry_bytes:
                    trims.append(name)
        return replace(
            draft,
            recover=load_plan.recover,
            splits=tuple(splits),
            trims=tuple(trims),
            read_bytes=read_bytes,
            write_bytes=write_bytes,
        )

    def _config(self, topic: str) -> LogConfig:
        if topic == CLUSTER_METADATA_TOPIC:
            return LogConfig(producer_id_expiration_ms=_NEVER_EXPIRE_MS)
        settings = self._metadata.settings_of(topic, self._node_id)
        config = self._options.config.with_properties(settings, ignore_unknown=True)
        return config.with_properties(self._options.topic_settings.get(topic, {}))


def _settled_names(listing: PartitionListing, leftovers: CleanupPlan) -> dict[str, str]:
    """Return the names after removals and renames, each with the file's current name."""
    removed = set(leftovers.removals)
    live = [
        str(SegmentFileName(segment.base_offset, kind)) for segment in listing.segments for kind in segment.kinds
    ] + [str(SegmentFileName(offset, FileKind.SNAPSHOT)) for offset in listing.snapshots]
    return {name: name for name in live if name not in removed} | {
        target: source for source, target in leftovers.renames
    }


def _node_id(fs: FileSystem, path: Path) -> int | None:
    try:
        properties = MetaProperties.read(fs, path / META_PROPERTIES_FILE)
    except CheckpointError:
        return None
    return None if properties is None else properties.node_id
