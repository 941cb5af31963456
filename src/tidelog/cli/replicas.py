"""The replicas among a command's targets: partitions that several given brokers of one cluster have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli.targets import Target
from tidelog.inspect.compare import BrokerDirectory, ChosenReplica, Placement, Role, choose_replicas, replicated
from tidelog.inspect.compare.broker_directory import read_broker_directory
from tidelog.model import TopicPartition
from tidelog.storage.fs import BY_PATH

if TYPE_CHECKING:
    from tidelog.server.metadata.zookeeper.translation import ZooKeeperCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReplicas:
    """Empty if no partition has several replicas. ``chosen`` are the replicas to read once."""

    chosen: dict[TopicPartition, list[ChosenReplica]] = field(default_factory=dict)
    placements: Mapping[TopicPartition, Placement] = field(default_factory=dict)
    """The placements by the newest cluster metadata among the targets."""
    note: str = ""
    """A sentence about the source of leaders and in-sync replicas."""
    warnings: Sequence[str] = ()

    @classmethod
    def of(cls, targets: Sequence[Target], cluster: ZooKeeperCluster | None = None) -> TargetReplicas:
        """Choose by the metadata in ZooKeeper if it is given, or else by the newest in the directories. Directories
        whose small files cannot be read have no replicas."""
        directories = list(_directories(targets)) if len(targets) > 1 else []
        if not replicated(directories):
            return cls()
        # imported late: most calls have no replicas
        from tidelog.cli.cluster_metadata import metadata_of, read_newest_metadata

        paths = (target.path for target in targets)
        metadata = read_newest_metadata(paths) if cluster is None else metadata_of(cluster)
        return cls(
            chosen=choose_replicas(BY_PATH, directories, metadata.placements),
            placements=metadata.placements,
            note=metadata.note,
            warnings=metadata.warnings,
        )

    def once(self, targets: Sequence[Target]) -> list[Target]:
        """Return the targets with one replica of each partition. A target without any is left out."""
        if not self.chosen:
            return list(targets)
        narrowed = []
        for target in targets:
            only = frozenset(part for part in target.partitions() if not self._is_other(target.path, part))
            if only or not any(True for _ in target.partitions()):
                narrowed.append(replace(target, only=only if only else target.only))
        return narrowed

    def is_chosen(self, path: Path, partition: TopicPartition) -> bool:
        """Return True for the chosen replica, and for a partition without other replicas."""
        return not self._is_other(path, partition)

    def _is_other(self, path: Path, partition: TopicPartition) -> bool:
        found = self._group(path, partition)
        return found is not None and found.directory.path != path

    def _group(self, path: Path, partition: TopicPartition) -> ChosenReplica | None:
        for one in self.chosen.get(partition, ()):
            if any(directory.path == path for directory in one.replicas):
                return one
        return None

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
        """Yield sentences about the choice. ``verb`` is the command's, such as "counted"."""
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


def _directories(targets: Sequence[Target]) -> Iterator[BrokerDirectory]:
    for target in targets:
        directory = read_broker_directory(BY_PATH, target.path)
        yield replace(directory, partitions=frozenset(target.partitions()))
