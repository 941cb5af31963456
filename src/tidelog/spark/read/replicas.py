"""The choice of a replica of each partition, where ``logDirs`` has the directories of several brokers of one cluster.

Records are read once. The option ``replica`` chooses: the leader's replica by the newest cluster metadata among the
directories, the longest, or that of a node. Other copies of a partition (of one node, of an unknown node, or of
several clusters) are an error, because no rule tells which of them is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from tidelog.inspect.compare import BrokerDirectory, Placement, choose_replicas
from tidelog.inspect.compare.broker_directory import read_broker_directory
from tidelog.model import DirectoryError, TopicPartition
from tidelog.spark.read.found_partition import FoundPartition, copies_of
from tidelog.spark.read.options import ReadOptions, ReplicaChoice
from tidelog.storage.fs import BY_PATH, path_of
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata, read_topic_metadata


def one_replica_each(
    found: list[FoundPartition], options: ReadOptions, warn: Callable[[str], None]
) -> list[FoundPartition]:
    """Return one entry for each partition, in the same order. Raise DirectoryError if the copies are no replicas."""
    copies = copies_of(found)
    if not copies:
        return found
    directories = _replica_directories(copies, options.log_dirs)
    if options.replica is ReplicaChoice.FAIL:
        partition, entries = next(iter(copies.items()))
        raise _in_two(partition, entries, "set the option replica, or give one of them")
    if isinstance(options.replica, int):
        chosen = {partition: _of_node(partition, options.replica, directories) for partition in copies}
    else:
        placements: Mapping[TopicPartition, Placement] = {}
        if options.replica is ReplicaChoice.LEADER:
            placements = _placements(copies, options.log_dirs)
        groups = choose_replicas(BY_PATH, directories, placements)
        chosen = {partition: group[0].directory for partition, group in groups.items()}
        without = [partition for partition in chosen if _is_not_leader(placements.get(partition), chosen[partition])]
        if options.replica is ReplicaChoice.LEADER and without:
            warn(
                f"The leader's replica of {', '.join(map(str, without))} is not known or cannot be read: reading the"
                " replica with the newest leader epoch and the highest log end"
            )
    return [
        entry
        for entry in found
        if entry.partition not in chosen or entry.directory.parent == chosen[entry.partition].path
    ]


def _replica_directories(
    copies: Mapping[TopicPartition, Sequence[FoundPartition]], log_dirs: Iterable[str]
) -> list[BrokerDirectory]:
    """Return the directories with only the partitions of ``copies``. Raise DirectoryError for other copies."""
    directories = [read_broker_directory(BY_PATH, path_of(name)) for name in log_dirs]
    by_path = {directory.path: directory for directory in directories}
    for partition, entries in copies.items():
        owners = [by_path[entry.directory.parent] for entry in entries]
        clusters = {None if owner.meta is None else owner.meta.cluster_id for owner in owners}
        nodes = {owner.node_id for owner in owners}
        if None in clusters or len(clusters) > 1:
            raise _in_two(partition, entries, "they are not replicas of one cluster by their meta.properties")
        if None in nodes or len(nodes) < len(entries):
            raise _in_two(partition, entries, "they are of the same node by their meta.properties")
    wanted = frozenset(copies)
    return [replace(directory, partitions=directory.partitions & wanted) for directory in directories]


def _in_two(partition: TopicPartition, entries: Sequence[FoundPartition], what: str) -> DirectoryError:
    first, second = (entry.directory.parent for entry in entries[:2])
    return DirectoryError(
        f"{partition} lies in two of the directories, {first} and {second}, and reading both would double its records:"
        f" {what}"
    )


def _of_node(partition: TopicPartition, node_id: int, directories: Iterable[BrokerDirectory]) -> BrokerDirectory:
    for directory in directories:
        if directory.node_id == node_id and partition in directory.partitions:
            return directory
    raise DirectoryError(f"node {node_id} has no replica of {partition} in these directories: set another replica")


def _is_not_leader(placement: Placement | None, directory: BrokerDirectory) -> bool:
    return placement is None or placement.leader != directory.node_id


def _placements(copies: Iterable[TopicPartition], log_dirs: Iterable[str]) -> dict[TopicPartition, Placement]:
    """Return the placement of each partition by the newest metadata among the directories."""
    known = [read_topic_metadata(BY_PATH, path_of(name)) for name in log_dirs]
    newest = max(known, key=lambda metadata: (metadata.epoch, metadata.end_offset))
    return {partition: _placement(newest, partition) for partition in copies if partition in newest.replicas}


def _placement(metadata: TopicMetadata, partition: TopicPartition) -> Placement:
    return Placement(
        leader=metadata.leaders.get(partition, -1),
        leader_epoch=-1,
        replicas=metadata.replicas[partition],
        isr=metadata.in_sync.get(partition, ()),
        topic_id=metadata.topic_id(partition.topic),
    )
