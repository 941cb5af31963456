"""The log directories of a cluster's brokers, and one partition's replica in each of them.

Each directory's state is read before any log, also while brokers run. So the log of an in-sync replica never ends below
a checkpointed high watermark.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.inspect.compare.truncation import EpochLog, epoch_cache
from tidelog.model import ConfigError, StorageError, TidelogError, TopicPartition
from tidelog.storage.checkpoint import (
    CLEANER_CHECKPOINT,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    MetaProperties,
    OffsetCheckpoint,
    PartitionMetadata,
)
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, EpochEntry, LeaderEpochCheckpoint
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.view.directory_state import DirectoryState, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import live_partitions
from tidelog.storage.log.view.view_state import InvalidTail


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDirectory:
    """A log directory, whose it is, and its checkpoints."""

    path: Path
    meta: MetaProperties | None
    state: DirectoryState
    partitions: frozenset[TopicPartition]
    cleaned: frozenset[TopicPartition] = frozenset()
    """The partitions that a cleaner has cleaned."""

    @property
    def node_id(self) -> int | None:
        return None if self.meta is None else self.meta.node_id

    @property
    def directory_id(self) -> uuid.UUID | None:
        return None if self.meta is None else self.meta.directory_id

    @property
    def name(self) -> str:
        """The directory in a sentence: the broker if it is known, and the path."""
        return str(self.path) if self.node_id is None else f"node {self.node_id} ({self.path})"


def read_broker_directories(fs: FileSystem, paths: Iterable[Path]) -> list[BrokerDirectory]:
    """Read the small files of each log directory. Raise ConfigError if they belong to several clusters."""
    found = [read_broker_directory(fs, path) for path in paths]
    require_one_cluster(found)
    return found


def require_one_cluster(directories: Iterable[BrokerDirectory]) -> None:
    """Raise ConfigError if log directories belong to several clusters."""
    clusters: dict[str, Path] = {}
    for directory in directories:
        if directory.meta is not None and directory.meta.cluster_id is not None:
            clusters.setdefault(directory.meta.cluster_id, directory.path)
    if len(clusters) > 1:
        places = ", ".join(f"{path} of {cluster}" for cluster, path in clusters.items())
        raise ConfigError(f"the directories belong to several clusters: {places}; give those of one cluster")


def unknown_nodes(directories: Iterable[BrokerDirectory]) -> Iterator[str]:
    """Yield a sentence about each log directory whose node is not known."""
    for directory in directories:
        if directory.node_id is None:
            yield (
                f"{directory.path} has no meta.properties that can be read, so its node is not known, and its replicas"
                " have no role."
            )


def read_broker_directory(fs: FileSystem, path: Path) -> BrokerDirectory:
    """Read the small files of a log directory. A ``meta.properties`` that cannot be read counts as missing."""
    fs = ReadOnlyFileSystem(fs)
    meta = MetaProperties.read_or_none(fs, path / META_PROPERTIES_FILE)
    try:
        cleaned = frozenset(OffsetCheckpoint.read(fs, path / CLEANER_CHECKPOINT))
    except StorageError:
        cleaned = frozenset()  # a cleaner without this file starts from the log start, so it is no error
    return BrokerDirectory(
        path=path,
        meta=meta,
        state=read_directory_state(fs, path),
        partitions=frozenset(live_partitions(fs, path)),
        cleaned=cleaned,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A partition's log in one log directory. ``error`` is the reason if it cannot be read."""

    directory: BrokerDirectory
    partition: TopicPartition
    view: LogView
    log_start: int = 0
    log_end: int = 0
    checkpointed: int | None = None
    """The high watermark in its checkpoint, also if it is above the log end; None without an entry."""
    epochs: tuple[EpochEntry, ...] = ()
    topic_id: uuid.UUID | None = None
    tail: InvalidTail | None = None
    error: TidelogError | None = field(default=None, compare=False)

    @property
    def is_readable(self) -> bool:
        return self.error is None

    @property
    def high_watermark(self) -> int | None:
        """The checkpointed high watermark within the log."""
        return None if self.checkpointed is None else max(self.log_start, min(self.checkpointed, self.log_end))

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1].epoch if self.epochs else -1

    @property
    def epoch_log(self) -> EpochLog:
        return EpochLog(
            log_start=self.log_start,
            log_end=self.log_end,
            high_watermark=self.log_end if self.high_watermark is None else self.high_watermark,
            epochs=self.epochs,
        )


def open_replicas(fs: FileSystem, directories: Sequence[BrokerDirectory], partition: TopicPartition) -> list[Replica]:
    """Return the partition's replica in each directory that has one. Errors are in the replicas."""
    return [_open(fs, one, partition) for one in directories if partition in one.partitions]


def _open(fs: FileSystem, directory: BrokerDirectory, partition: TopicPartition) -> Replica:
    path = directory.path / partition.directory_name
    view = LogView(fs, path, directory_state=directory.state)
    try:
        state = view.state
        metadata = PartitionMetadata.read(view.fs, path / PARTITION_METADATA_FILE)
        epochs = LeaderEpochCheckpoint.read(view.fs, path / LEADER_EPOCH_CHECKPOINT)
    except TidelogError as error:
        return Replica(directory=directory, partition=partition, view=view, error=error)
    return Replica(
        directory=directory,
        partition=partition,
        view=view,
        log_start=view.log_start,
        log_end=view.log_end,
        checkpointed=directory.state.high_watermarks.get(partition),
        epochs=epoch_cache(epochs, view.log_end).entries,
        topic_id=None if metadata is None else metadata.topic_id,
        tail=state.invalid_tail,
    )
