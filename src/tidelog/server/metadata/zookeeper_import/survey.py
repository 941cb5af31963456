"""The contents of log directories without a metadata log, as metadata. Nothing is written.

==========================  ==========================================================================================
fact                        source
==========================  ==========================================================================================
cluster, node               ``meta.properties``, version 0 (ZooKeeper's) or 1 (an unfinished import)
topics, partitions          the names of the partition directories
topic ids                   ``partition.metadata``, since Kafka 2.8; a topic without one gets a new id
leader epochs               the last entry of ``leader-epoch-checkpoint``
configs                     the caller: they were in ZooKeeper. By default a topic keeps all its records, and is
                            compacted if the cleaner's checkpoint names it
producer ids                the highest id in producer snapshots and in the batches after them
==========================  ==========================================================================================

With the metadata in ZooKeeper, ids, epochs and configs come from there, and ``cluster_topics`` and ``cluster_source``
have the rules. A survey fails, with the directory's name, in these cases:

- A directory has a metadata log, or a process has locked it.
- A partition is in two directories, or a topic has two ids.
- A topic has missing partitions: they are on another broker. (In ZooKeeper all of them are known.)
- There is no node id.
- ``__cluster_metadata-0`` is a link or has foreign files.

An unfinished import leaves files of a metadata log. Only files with the names of the log, its snapshots and the quorum
state are removed, and links are never followed: another program may have written the directory.

Source: KIP-631, KIP-866; Kafka's ``MetaProperties``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from tidelog.model import ConfigError, DirectoryError, LockedError, TopicPartition
from tidelog.server.metadata.controller.brokers import PRODUCER_ID_BLOCK
from tidelog.server.metadata.kraft.metadata_view import read_metadata
from tidelog.server.metadata.kraft.snapshot import leftover_files, read_bootstrap_records
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.zookeeper.translation import Untranslated, ZooKeeperCluster
from tidelog.server.metadata.zookeeper_import.cluster_source import broker_settings, require_source
from tidelog.server.metadata.zookeeper_import.cluster_topics import find_cluster_topics
from tidelog.server.metadata.zookeeper_import.found_topics import FoundTopic, find_topic
from tidelog.storage.checkpoint import (
    CLEANER_CHECKPOINT,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    QUORUM_STATE_FILE,
    MetaProperties,
    OffsetCheckpoint,
)
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.fs import TEMPORARY_SUFFIX, FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import require_log_directory
from tidelog.storage.log.view.view_producers import read_producers
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY, SnapshotId, topic_partitions
from tidelog.storage.manager.producers.producer_sessions import FIRST_PRODUCER_ID
from tidelog.storage.segment.file_names import SegmentFileName

T = TypeVar("T")

_SHOWN: Final = 5
"""The most numbers in an error message."""
KEEPING: Final[Mapping[str, str]] = {"retention.ms": "-1", "retention.bytes": "-1"}
"""The configs of a topic without given configs: its retention is unknown, so nothing is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    node_id: int
    cluster_id: str | None
    """The cluster id, or None if a new one is needed."""
    directories: Sequence[Path]
    metadata_directory: Path
    topics: Sequence[FoundTopic]
    next_producer_id: int
    more_records: Sequence[MetadataRecord] = ()
    """The records of broker settings, quotas, users and ACLs, from ZooKeeper."""
    left_out: Sequence[Untranslated] = ()
    """Everything in ZooKeeper and the directories that is not imported."""
    live_brokers: Sequence[int] = ()
    """The brokers that run, by ZooKeeper. They must stop before the import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyRequest:
    """A request for a survey. ``metadata_directory`` is the first of ``directories``, or the configured one."""

    directories: Sequence[Path]
    metadata_directory: Path
    node_id: int | None
    """The node id, or None to take it from the directories."""
    topic_settings: Mapping[str, Mapping[str, str]]
    """The given configs by topic."""
    internal_settings: Mapping[str, Mapping[str, str]]
    """The configs of internal topics without given ones."""
    cluster: ZooKeeperCluster | None = None
    """The metadata in ZooKeeper, or None if it is not known."""


def survey_directories(fs: FileSystem, request: SurveyRequest) -> Survey:
    """Return the survey of the directories. Raise DirectoryError, ConfigError or LockedError as the module docstring
    lists, and CheckpointError for a damaged file."""
    reading = ReadOnlyFileSystem(fs)
    for path in request.directories:
        require_log_directory(reading, path)
    properties = {path: _properties(reading, path, request.metadata_directory) for path in request.directories}
    found: dict[TopicPartition, Path] = {}
    for path in request.directories:
        for partition in topic_partitions(reading, path):
            if partition in found:
                raise DirectoryError(f"{partition} is also in {found[partition]}: move one of the two away", path=path)
            found[partition] = path
    node_id, cluster_id = _agreed_node(request.node_id, properties), _agreed_cluster(properties)
    if request.cluster is not None:
        return _cluster_survey(reading, found, request, request.cluster, node_id, cluster_id)
    return Survey(
        node_id=node_id,
        cluster_id=cluster_id,
        directories=request.directories,
        metadata_directory=request.metadata_directory,
        topics=_topics(reading, found, request),
        next_producer_id=_next_producer_id(reading, found),
    )


def _cluster_survey(
    fs: FileSystem,
    found: Mapping[TopicPartition, Path],
    request: SurveyRequest,
    cluster: ZooKeeperCluster,
    node_id: int,
    cluster_id: str | None,
) -> Survey:
    require_source(cluster, node_id, cluster_id)
    topics = find_cluster_topics(fs, found, cluster, node_id, request.topic_settings)
    settings, unusable = broker_settings(cluster)
    return Survey(
        node_id=node_id,
        cluster_id=cluster_id or cluster.cluster_id,
        directories=request.directories,
        metadata_directory=request.metadata_directory,
        topics=topics.topics,
        next_producer_id=max(cluster.next_producer_id, _next_producer_id(fs, found)),
        more_records=list(replace(cluster, topics={}, configs=settings, next_producer_id=0).records()),
        left_out=[one for one in (*topics.untranslated(), *unusable, *cluster.untranslated) if one.names],
        live_brokers=sorted(cluster.brokers),
    )


def _properties(fs: FileSystem, path: Path, metadata_directory: Path) -> MetaProperties | None:
    holder = fs.lock_holder(path / LOCK_FILE)
    if holder is not None:
        raise LockedError(f"process {holder} has locked the directory: stop it first", path=path)
    properties = MetaProperties.read(fs, path / META_PROPERTIES_FILE)
    if path != metadata_directory:
        return properties
    if properties is not None and properties.version > 0:
        raise DirectoryError(
            f"{META_PROPERTIES_FILE} has version {properties.version}: this directory already has a metadata log,"
            " so there is nothing to import (`tidelog metadata` shows it)",
            path=path,
        )
    if not _is_unfinished(fs, path) and (view := read_metadata(fs, path)) is not None and not view.is_empty:
        raise DirectoryError(
            f"there is a metadata log, but {META_PROPERTIES_FILE} is not from a KRaft broker: a migration"
            " from ZooKeeper to KRaft is unfinished. Finish it with Kafka, or remove __cluster_metadata-0",
            path=path,
        )
    unfinished_metadata(fs, path / METADATA_DIRECTORY)
    return properties


def _is_unfinished(fs: FileSystem, path: Path) -> bool:
    """Return True if an import began here: only an import has topics among a cluster's first records."""
    return any(record.name == "TopicRecord" for record in read_bootstrap_records(fs, path))


def _agreed_node(asked: int | None, properties: Mapping[Path, MetaProperties | None]) -> int:
    known = {found.node_id: path for path, found in properties.items() if found and found.node_id is not None}
    if asked is not None:
        known.setdefault(asked, Path("--node-id"))
    if len(known) > 1:
        raise ConfigError(f"the directories belong to different brokers: {_each(known)}")
    node_id = next(iter(known), None)
    if node_id is None:
        raise ConfigError("no meta.properties has a node id: set it with --node-id")
    return node_id


def _agreed_cluster(properties: Mapping[Path, MetaProperties | None]) -> str | None:
    known = {found.cluster_id: path for path, found in properties.items() if found and found.cluster_id is not None}
    if len(known) > 1:
        raise ConfigError(f"the directories belong to different clusters: {_each(known)}")
    return next(iter(known), None)


def _each(known: Mapping[T, Path]) -> str:
    return ", ".join(f"{value} in {path}" for value, path in known.items())


def _topics(fs: FileSystem, found: Mapping[TopicPartition, Path], request: SurveyRequest) -> list[FoundTopic]:
    compacted = {
        partition.topic
        for path in request.directories
        for partition in OffsetCheckpoint.read(fs, path / CLEANER_CHECKPOINT)
    }
    by_topic: dict[str, dict[int, Path]] = defaultdict(dict)
    for partition, path in found.items():
        by_topic[partition.topic][partition.partition] = path
    for name in request.topic_settings:
        if name not in by_topic:
            raise ConfigError(f"--topic-config: there is no topic {name} in the directories")
    return [_topic(fs, name, by_topic[name], request, is_compacted=name in compacted) for name in sorted(by_topic)]


def _topic(
    fs: FileSystem, name: str, places: Mapping[int, Path], request: SurveyRequest, *, is_compacted: bool
) -> FoundTopic:
    last = max(places)
    if len(places) <= last:  # a name may have any number, so not all missing partitions are listed
        missing = list(islice((number for number in range(last) if number not in places), _SHOWN))
        more = last + 1 - len(places) - len(missing)
        raise DirectoryError(
            f"{name} has no partition {', '.join(map(str, missing))}{f' and {more} more' if more else ''} here, but"
            f" {last}: the others lie on another"
            " broker or disk. Copy all of them here, or move this topic's directories away",
            path=places[last],
        )
    kept = {**KEEPING, "cleanup.policy": "compact"} if is_compacted else KEEPING
    settings = {**request.internal_settings.get(name, kept), **request.topic_settings.get(name, {})}
    return find_topic(fs, name, places, settings)


def _next_producer_id(fs: FileSystem, found: Mapping[TopicPartition, Path]) -> int:
    """Return the start of the first block above all allocated ids. Ids of the Python API do not count."""
    states = {path: read_directory_state(fs, path) for path in found.values()}
    highest = -1
    for partition, path in found.items():
        view = LogView(fs, path / partition.directory_name, directory_state=states[path])
        ids = [producer_id for producer_id in read_producers(view) if producer_id < FIRST_PRODUCER_ID]
        highest = max([highest, *ids])
    return (highest // PRODUCER_ID_BLOCK + 1) * PRODUCER_ID_BLOCK


_SMALL_FILES: Final = frozenset({QUORUM_STATE_FILE, PARTITION_METADATA_FILE, LEADER_EPOCH_CHECKPOINT})


def unfinished_metadata(fs: FileSystem, directory: Path) -> list[Path]:
    """Return the files that may be removed; none if the directory does not exist.

    Raise DirectoryError if it is a link, or has a file that does not belong to a metadata log.
    """
    if directory.is_symlink():
        raise DirectoryError(
            "it is a symbolic link, and its target must not be cleared: remove the link", path=directory
        )
    if not fs.exists(directory):
        return []
    unfinished = leftover_files(fs, directory)
    paths = [directory / name for name in fs.list_names(directory)]
    for path in paths:
        if path.is_symlink() or not (path in unfinished or _is_known(path.name)):
            raise DirectoryError(
                f"{path.name!r} is not a file of a metadata log, and a new log must begin here: move it elsewhere",
                path=directory,
            )
    return paths


def _is_known(name: str) -> bool:
    stem = name.removesuffix(TEMPORARY_SUFFIX)
    return stem in _SMALL_FILES or SegmentFileName.parse(stem) is not None or SnapshotId.parse(stem) is not None
