"""The replicas among a command's targets: partitions that several given brokers of one cluster have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidelog.cli.targets import Target
from tidelog.inspect.compare import BrokerDirectory, ChosenReplicas, choose_replicas, replicated
from tidelog.inspect.compare.broker_directory import read_broker_directory
from tidelog.storage.fs import BY_PATH

if TYPE_CHECKING:
    from tidelog.server.metadata.zookeeper.translation import ZooKeeperCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReplicas(ChosenReplicas):
    """The choice among the partitions of targets."""

    @classmethod
    def of(cls, targets: Sequence[Target], cluster: ZooKeeperCluster | None = None) -> TargetReplicas:
        """Choose by the metadata in ZooKeeper if it is given, or else by the newest in the directories. Directories
        whose small files cannot be read have no replicas."""
        directories = list(_directories(targets)) if len(targets) > 1 else []
        if not replicated(directories):
            return cls()
        # imported late: most calls have no replicas
        from tidelog.server.metadata.kraft.newest_metadata import metadata_of, read_newest_metadata

        paths = (target.path for target in targets)
        metadata = read_newest_metadata(paths) if cluster is None else metadata_of(cluster.image(), "ZooKeeper")
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
            only = frozenset(part for part in target.partitions() if self.is_chosen(target.path, part))
            if only or not any(True for _ in target.partitions()):
                narrowed.append(replace(target, only=only if only else target.only))
        return narrowed


def _directories(targets: Sequence[Target]) -> Iterator[BrokerDirectory]:
    for target in targets:
        directory = read_broker_directory(BY_PATH, target.path)
        yield replace(directory, partitions=frozenset(target.partitions()))
