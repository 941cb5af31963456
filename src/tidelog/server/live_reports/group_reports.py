"""Groups with their lag, from the group coordinator of this broker. Thread rule: the event loop only.

The lag counts to the high watermark, and only for partitions that this broker leads: others are in ``unknown``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model import CorruptRecordError, TidelogError, TopicPartition
from tidelog.record.internal_records.committed_offset import OffsetAndMetadata
from tidelog.server.groups.owned_shard import OwnedShard
from tidelog.server.groups.reports import group_protocol_type, group_type
from tidelog.server.groups.shard import Shard
from tidelog.server.groups.state.classic_group import ClassicGroup, ClassicState
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.consumer_protocol import read_assignment
from tidelog.server.groups.state.group_map import Group
from tidelog.server.live_reports.reported_node import Report, ReportedNode, Wanted
from tidelog.server.live_reports.turns import Top, Turns
from tidelog.server.replicas.partition import Partition
from tidelog.server.replicas.replica_manager import ReplicaManager


@dataclass(frozen=True, slots=True, kw_only=True)
class _Committed:
    """A committed offset with its partition. ``served`` is None if this broker has no replica of the topic."""

    group: Group
    name: TopicPartition
    committed: OffsetAndMetadata
    end: int | None
    served: Partition | None

    @property
    def lag(self) -> int | None:
        return None if self.end is None else max(0, self.end - self.committed.offset)


@dataclass(slots=True)
class _GroupLag:
    offsets: int = 0
    unknown: int = 0
    lag: int = 0
    largest: int = 0


async def report_groups(reported: ReportedNode, wanted: Wanted, turns: Turns) -> Report:
    """Return the groups and their partitions, those with the largest lag first, and the coordinator's partitions."""
    coordinator, replicas = reported.groups, reported.replicas
    shards = [] if coordinator is None else coordinator.shards()
    groups = Top[tuple[OwnedShard, Group, _GroupLag]](wanted.most)
    partitions = Top[_Committed](wanted.most)
    found = [(one, group) for one in shards if one.is_loaded for group in one.shard.groups.values()]
    async for owned, group in turns.each(found):
        if wanted.fits(group.group_id) and replicas is not None:
            lag = await _lag(group, owned.shard, replicas, partitions, turns)
            groups.add((lag.lag, lag.offsets), (owned, group, lag))
    return {
        **groups.rows(lambda one: _group_row(*one)),
        "groups": len(found),
        "partitions": partitions.rows(_partition_row),
        "shards": [{"partition": one.number, "state": str(one.state)} for one in shards],
    }


async def _lag(
    group: Group, shard: Shard, replicas: ReplicaManager, partitions: Top[_Committed], turns: Turns
) -> _GroupLag:
    lag = _GroupLag()
    async for name, committed in turns.each(list(shard.offsets.of_group(group.group_id).items())):
        served = replicas.find(name)
        end = None if served is None else _end(served, committed)
        one = _Committed(group=group, name=name, committed=committed, end=end, served=served)
        lag.offsets += 1
        if one.lag is None:
            lag.unknown += 1
        else:
            lag.lag += one.lag
            lag.largest = max(lag.largest, one.lag)
        partitions.add(-1 if one.lag is None else one.lag, one)
    return lag


def _end(served: Partition, committed: OffsetAndMetadata) -> int | None:
    """Return the high watermark of a partition that this broker leads, if the offset is of the same topic."""
    if not served.is_leading or committed.topic_id not in (None, served.topic_id):
        return None
    try:
        return served.high_watermark
    except TidelogError:
        return None  # the log is offline or deleted


def _group_row(owned: OwnedShard, group: Group, lag: _GroupLag) -> Report:
    return {
        "group": group.group_id,
        "type": str(group_type(group)),
        "protocol_type": group_protocol_type(group),
        "state": str(group.state),
        "members": len(group.members) if isinstance(group, ClassicGroup | ConsumerGroup) else None,
        "epoch": _epoch(group),
        "assignor": group.protocol_name if isinstance(group, ClassicGroup) else _assignor(group),
        "offsets": lag.offsets,
        "unknown": lag.unknown,
        "lag": lag.lag if lag.offsets > lag.unknown else None,
        "largest_lag": lag.largest if lag.offsets > lag.unknown else None,
        "coordinator_partition": owned.number,
    }


def _epoch(group: Group) -> int | None:
    """Return the generation of a classic group, or the epoch of a consumer group."""
    if isinstance(group, ClassicGroup):
        return group.generation_id
    return group.group_epoch if isinstance(group, ConsumerGroup) else None


def _assignor(group: Group) -> str | None:
    return group.preferred_assignor if isinstance(group, ConsumerGroup) else None


def _partition_row(one: _Committed) -> Report:
    member = _member(one)
    return {
        "group": one.group.group_id,
        "topic": one.name.topic,
        "partition": one.name.partition,
        "committed": one.committed.offset,
        "end": one.end,
        "lag": one.lag,
        "committed_ms": one.committed.commit_ms,
        "member": None if member is None else member[0],
        "client_id": None if member is None else member[1],
        "host": None if member is None else member[2],
        "log_dir": None if one.served is None else log_dir_of(one.served),
    }


def _member(one: _Committed) -> tuple[str, str, str] | None:
    """Return the id, client id and host of the member that has the partition, or None."""
    group, name = one.group, one.name
    if isinstance(group, ConsumerGroup) and one.served is not None:
        owner = group.owner(one.served.topic_id, name.partition)
        member = None if owner is None else group.members.get(owner)
        return None if member is None else (member.member_id, member.client_id, member.client_host)
    if isinstance(group, ClassicGroup) and group.state is ClassicState.STABLE and group.uses_consumer_protocol:
        for classic in group.members.values():
            try:
                assigned = read_assignment(classic.assignment).partitions
            except CorruptRecordError:
                continue  # the assignment is the client's own bytes
            if name.partition in assigned.get(name.topic, ()):
                return (classic.member_id, classic.client_id, classic.client_host)
    return None


def log_dir_of(partition: Partition) -> str | None:
    """Return the path of the log directory that has the partition's log, or None if it is offline."""
    try:
        return str(partition.log.directory.parent)
    except TidelogError:
        return None
