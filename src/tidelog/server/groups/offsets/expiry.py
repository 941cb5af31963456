"""The expiry of committed offsets and of groups that are no longer needed.

========================================  ==============================================================
group                                     start of an offset's retention
========================================  ==============================================================
only offsets, never a member              its commit
classic, empty                            the time at which the group became empty
classic, stable, of consumers             its commit, for topics that no member reads
classic, any other                        nothing expires
consumer group                            its commit, for topics that no member reads
streams group, empty                      its commit
streams group with members                nothing expires: their subscriptions are unknown here
========================================  ==============================================================

An offset with its own expiry time expires then. An offset stays while an open transaction has a pending commit of its
partition. A group without members and offsets is deleted too. ``offsets.retention.check.interval.ms`` is the interval.
Source: Kafka's ``OffsetMetadataManager.cleanupExpiredOffsets``, ``Group.offsetExpirationCondition``; KIP-211.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.model import TopicPartition
from tidelog.record.internal_records.committed_offset import OffsetAndMetadata, offset_tombstone
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.server.groups.records.classic_records import group_tombstone
from tidelog.server.groups.records.consumer_records import group_tombstones
from tidelog.server.groups.state.classic_group import ClassicGroup, ClassicState
from tidelog.server.groups.state.group_map import Group
from tidelog.server.groups.state.offset_store import OffsetStore
from tidelog.server.groups.state.unserved_group import UnservedGroup

CountsFrom = Callable[[OffsetAndMetadata], int]


def expired_records(group: Group, offsets: OffsetStore, *, now_ms: int, retention_ms: int) -> list[GroupRecord]:
    """Return the tombstones of one group's expired offsets, and of the group itself if it is no longer needed."""
    if isinstance(group, UnservedGroup) and not group.can_be_deleted:
        return []
    times = expiry_times(group, offsets, retention_ms=retention_ms)
    gone = [partition for partition, expires_ms in times.items() if expires_ms is not None and now_ms >= expires_ms]
    records = [offset_tombstone(group.group_id, partition) for partition in gone]
    if group.is_empty and len(gone) == len(times) and not offsets.has_pending(group.group_id):
        records += removal_records(group)
    return records


def expiry_times(group: Group, offsets: OffsetStore, *, retention_ms: int) -> dict[TopicPartition, int | None]:
    """Return the time in ms at which each committed offset expires if nothing changes, or None for never."""
    counts_from = _counts_from(group)
    is_kept = counts_from is None or (isinstance(group, UnservedGroup) and not group.can_be_deleted)
    times: dict[TopicPartition, int | None] = {}
    for partition, committed in offsets.of_group(group.group_id).items():
        stays = is_kept or group.is_subscribed(partition.topic) or offsets.has_pending(group.group_id, partition)
        if stays or counts_from is None:
            times[partition] = None
        else:
            times[partition] = (
                counts_from(committed) + retention_ms if committed.expire_ms is None else committed.expire_ms
            )
    return times


def removal_records(group: Group) -> list[GroupRecord]:
    """Return the tombstones of the group itself, without its offsets."""
    if isinstance(group, UnservedGroup):
        return group.tombstones()
    return [group_tombstone(group.group_id)] if isinstance(group, ClassicGroup) else group_tombstones(group)


def _counts_from(group: Group) -> CountsFrom | None:
    if isinstance(group, ClassicGroup) and group.protocol_type is not None:
        if group.is_empty:
            emptied_ms = group.state_changed_ms
            return lambda committed: committed.commit_ms if emptied_ms is None else emptied_ms
        knows_topics = group.uses_consumer_protocol and group.subscribed_topics is not None
        if not knows_topics or group.state is not ClassicState.STABLE:
            return None
    return lambda committed: committed.commit_ms
