"""A first look at a cluster's replicas from names, checkpoints and the metadata, without reading any log.

It tells which replicas are missing, and how far the checkpointed high watermarks of a partition's replicas are apart. A
high watermark is checkpointed every few seconds, so a small distance is normal. Whether the records are equal only the
comparison tells (``cluster_comparison``). Pure, but for ``latest_epoch``, which reads one small file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelog.inspect.compare.broker_directory import BrokerDirectory
from tidelog.inspect.compare.placement import Placement, Role
from tidelog.model import TidelogError, TopicPartition
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from tidelog.storage.fs import FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedReplica:
    """A replica in one of the directories. ``high_watermark`` is the checkpointed one, None without an entry."""

    directory: BrokerDirectory
    role: Role
    high_watermark: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedPartition:
    partition: TopicPartition
    placement: Placement | None
    replicas: tuple[SurveyedReplica, ...]
    missing: tuple[int, ...]
    """The nodes that must have all committed records, whose given directories lack the partition."""

    @property
    def high_watermark(self) -> int | None:
        """The highest checkpointed high watermark."""
        return max((one.high_watermark for one in self.replicas if one.high_watermark is not None), default=None)

    @property
    def behind(self) -> int | None:
        """The distance between the highest and the lowest checkpointed high watermark; None if fewer than two have
        one."""
        known = [one.high_watermark for one in self.replicas if one.high_watermark is not None]
        return max(known) - min(known) if len(known) > 1 else None


def survey_replicas(
    directories: Sequence[BrokerDirectory], placements: Mapping[TopicPartition, Placement]
) -> list[SurveyedPartition]:
    """Return the partitions that several directories have, or that a node should have and lacks, in their order."""
    holders: defaultdict[TopicPartition, list[BrokerDirectory]] = defaultdict(list)
    for one in directories:
        for partition in one.partitions:
            holders[partition].append(one)
    found = []
    for partition in sorted(holders):
        own, placement = holders[partition], placements.get(partition)
        missing = () if placement is None else tuple(_missing(placement, own, directories))
        if len(own) > 1 or missing:
            found.append(
                SurveyedPartition(
                    partition=partition,
                    placement=placement,
                    replicas=tuple(_surveyed(one, partition, placement) for one in own),
                    missing=missing,
                )
            )
    return found


def _surveyed(directory: BrokerDirectory, partition: TopicPartition, placement: Placement | None) -> SurveyedReplica:
    role = Role.UNKNOWN if placement is None else placement.role_of(directory.node_id, directory.directory_id)
    return SurveyedReplica(
        directory=directory, role=role, high_watermark=directory.state.high_watermarks.get(partition)
    )


def _missing(
    placement: Placement, own: Sequence[BrokerDirectory], directories: Sequence[BrokerDirectory]
) -> Iterable[int]:
    held = {one.node_id for one in own}
    for node_id in placement.replicas:
        assigned = placement.directories.get(node_id)
        is_given = any(
            one.node_id == node_id and (assigned in (None, one.directory_id) or one.directory_id is None)
            for one in directories
        )
        if node_id not in held and is_given and placement.role_of(node_id, None).has_committed_records:
            yield node_id


def latest_epoch(fs: FileSystem, directory: BrokerDirectory, partition: TopicPartition) -> int | None:
    """Return the latest leader epoch in a replica's checkpoint, or None if it has none or cannot be read."""
    try:
        entries = LeaderEpochCheckpoint.read(fs, directory.path / partition.directory_name / LEADER_EPOCH_CHECKPOINT)
    except TidelogError:
        return None
    return entries[-1].epoch if entries else None
