"""The choice of a single replica of each partition, for readers that want its records once.

Replicas are directories of one cluster, of at least two nodes, that have the same partition. A directory without
``meta.properties`` has no replicas. Two directories of one node do not make replicas: one of them is a copy.

==================================================  ==========================================================
the replica                                         is chosen if
==================================================  ==========================================================
the leader's                                        it is given, by the metadata of the caller
the best one by ``partition_comparison``            the leader's is not given or cannot be read
the first                                           none can be read: its reader reports the error
==================================================  ==========================================================
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.inspect.compare.broker_directory import BrokerDirectory, open_replicas
from tidelog.inspect.compare.partition_comparison import PartitionReplicas, choose_reference
from tidelog.inspect.compare.placement import Placement, Role
from tidelog.model import TopicPartition
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenReplica:
    """The chosen replica of a partition, among all of one cluster."""

    directory: BrokerDirectory
    role: Role
    replicas: tuple[BrokerDirectory, ...]
    """All given directories with the partition, the chosen one included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenReplicas:
    """The choice for all partitions that several given brokers have. Empty if there are none."""

    chosen: Mapping[TopicPartition, Sequence[ChosenReplica]] = field(default_factory=dict)
    placements: Mapping[TopicPartition, Placement] = field(default_factory=dict)
    """The placements by the newest cluster metadata among the directories."""
    note: str = ""
    """A sentence about the source of leaders and in-sync replicas."""
    warnings: Sequence[str] = ()

    def is_chosen(self, path: Path, partition: TopicPartition) -> bool:
        """Return True for the chosen replica, and for a partition without other replicas."""
        found = self._group(path, partition)
        return found is None or found.directory.path == path

    def chosen_path(self, path: Path, partition: TopicPartition) -> Path | None:
        """Return the directory of the chosen replica, or None if the partition has no other replicas."""
        found = self._group(path, partition)
        return None if found is None else found.directory.path

    def role_of(self, path: Path, partition: TopicPartition) -> Role | None:
        """Return the replica's role, or None if the partition has no other replicas."""
        found, placement = self._group(path, partition), self.placements.get(partition)
        if found is None or placement is None:
            return None if found is None else Role.UNKNOWN
        own = next(directory for directory in found.replicas if directory.path == path)
        return placement.role_of(own.node_id, own.directory_id)

    def notes(self, verb: str) -> Iterator[str]:
        """Yield sentences about the choice. ``verb`` is the reader's, such as "counted"."""
        if not self.chosen:
            return
        roles = Counter(one.role is Role.LEADER for group in self.chosen.values() for one in group)
        replicas = "the leader's replica" if not roles[False] else "one replica"
        yield (
            f"{len(self.chosen):,} partitions lie in the directories of several brokers: each was {verb} once, from"
            f" {replicas}."
        )
        if roles[False]:
            yield (
                f"Of {roles[False]:,} of them the leader's replica is not known or not given: the one with the newest"
                " epoch and the highest log end was taken."
            )
        yield from self.warnings

    def _group(self, path: Path, partition: TopicPartition) -> ChosenReplica | None:
        for one in self.chosen.get(partition, ()):
            if any(directory.path == path for directory in one.replicas):
                return one
        return None


def replicated(directories: Iterable[BrokerDirectory]) -> dict[TopicPartition, list[tuple[BrokerDirectory, ...]]]:
    """Return the partitions with replicas of several nodes: a group of directories for each cluster."""
    found: defaultdict[tuple[TopicPartition, str], list[BrokerDirectory]] = defaultdict(list)
    for directory in directories:
        if directory.meta is not None and directory.meta.cluster_id is not None and directory.node_id is not None:
            for partition in directory.partitions:
                found[partition, directory.meta.cluster_id].append(directory)
    groups: defaultdict[TopicPartition, list[tuple[BrokerDirectory, ...]]] = defaultdict(list)
    for (partition, _), group in sorted(found.items()):
        if len({directory.node_id for directory in group}) > 1:
            groups[partition].append(tuple(group))
    return dict(groups)


def choose_replicas(
    fs: FileSystem,
    directories: Sequence[BrokerDirectory],
    placements: Mapping[TopicPartition, Placement],
) -> dict[TopicPartition, list[ChosenReplica]]:
    """Choose a replica of each replicated partition, for each cluster. ``placements`` can be empty."""
    fs = ReadOnlyFileSystem(fs)
    return {
        partition: [_choose(fs, partition, group, placements.get(partition)) for group in groups]
        for partition, groups in replicated(directories).items()
    }


def _choose(
    fs: FileSystem, partition: TopicPartition, group: Sequence[BrokerDirectory], placement: Placement | None
) -> ChosenReplica:
    leading = [one for one in group if _role(placement, one) is Role.LEADER]
    best = _best(fs, partition, leading, placement) or _best(fs, partition, group, placement) or group[0]
    return ChosenReplica(directory=best, role=_role(placement, best), replicas=tuple(group))


def _best(
    fs: FileSystem, partition: TopicPartition, group: Sequence[BrokerDirectory], placement: Placement | None
) -> BrokerDirectory | None:
    replicas = open_replicas(fs, group, partition)
    given = PartitionReplicas(partition=partition, replicas=replicas, directories=group, placement=placement)
    best = choose_reference(given, [one for one in replicas if one.is_readable and not given.is_other_topic(one)])
    return None if best is None else best.directory


def _role(placement: Placement | None, directory: BrokerDirectory) -> Role:
    return Role.UNKNOWN if placement is None else placement.role_of(directory.node_id, directory.directory_id)
