"""The effect of a record of ``__consumer_offsets`` on its shard's state, when written or when read.

A tombstone for a missing key is a no-op: compaction may keep a tombstone after it removed the deleted record.
Thread rule: the event loop only, except for loading.
Source: the ``replay`` methods of Kafka's ``GroupMetadataManager`` and ``OffsetMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidelog.model.kafka_uuid import uuid_from_text
from tidelog.record.internal_records.committed_offset import OFFSETS, offset_place, read_offset
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.server.groups.records import classic_records, consumer_records
from tidelog.server.groups.state.classic_group import ClassicGroup
from tidelog.server.groups.state.classic_member import Protocol
from tidelog.server.groups.state.consumer_group import ConsumerGroup, ResolvedRegex
from tidelog.server.groups.state.consumer_member import ClassicMemberMetadata, ConsumerMember, MemberState, Partitions
from tidelog.server.groups.state.group_map import GroupMap
from tidelog.server.groups.state.offset_store import OffsetStore
from tidelog.server.groups.state.unserved_group import UnservedGroup, unserved_type

Fields = Mapping[str, Any]

NO_PRODUCER = -1
_NO_OFFSET = -1
_NO_ASSIGNMENT_EPOCH = -1


class Replay:
    """A dispatcher of records to the groups and offsets that they change."""

    def __init__(self, groups: GroupMap, offsets: OffsetStore) -> None:
        self._groups = groups
        self._offsets = offsets
        self._appliers: dict[int, Callable[[Fields, Fields | None], None]] = {
            classic_records.GROUP_METADATA: self._classic_group,
            consumer_records.GROUP_EPOCH: self._group_epoch,
            consumer_records.PARTITION_METADATA: self._partition_metadata,
            consumer_records.MEMBER: self._member,
            consumer_records.TARGET_EPOCH: self._target_epoch,
            consumer_records.TARGET: self._target,
            consumer_records.CURRENT: self._current,
            consumer_records.REGEX: self._regex,
        }

    def apply(self, record: GroupRecord, offset: int, producer_id: int = NO_PRODUCER) -> None:
        """Apply a record at this log ``offset``, in the transaction of ``producer_id`` if given."""
        if record.number in OFFSETS:
            self._offset(record, offset, producer_id)
        elif record.number in self._appliers:
            self._appliers[record.number](record.key, record.value)
        else:
            self._unserved(record)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply a transaction marker that is in the log."""
        self._offsets.end_transaction(producer_id, is_commit=is_commit)

    def _offset(self, record: GroupRecord, offset: int, producer_id: int) -> None:
        group_id, partition = offset_place(record)
        if record.value is None:
            self._offsets.remove(group_id, partition)
            return
        if group_id not in self._groups:
            self._groups[group_id] = ClassicGroup(group_id=group_id)
        committed = read_offset(record, offset)
        if producer_id == NO_PRODUCER:
            self._offsets.put(group_id, partition, committed)
        else:
            self._offsets.put_pending(producer_id, group_id, partition, committed)

    def _classic_group(self, key: Fields, value: Fields | None) -> None:
        group_id = key["group"]
        if value is not None:
            self._groups[group_id] = classic_records.read_group(group_id, value)
        elif isinstance(self._groups.get(group_id), ClassicGroup):
            del self._groups[group_id]

    def _group_epoch(self, key: Fields, value: Fields | None) -> None:
        group_id = key["groupId"]
        if value is not None:
            group = self._get_or_create(group_id)
            group.group_epoch = value["epoch"]
            group.metadata_hash = value.get("metadataHash", 0)
        elif isinstance(self._groups.get(group_id), ConsumerGroup):
            del self._groups[group_id]

    def _partition_metadata(self, key: Fields, value: Fields | None) -> None:
        group = self._get_consumer_group(key)
        if group is None and value is not None:
            group = self._get_or_create(key["groupId"])
        if group is not None:
            group.has_partition_metadata = value is not None

    def _member(self, key: Fields, value: Fields | None) -> None:
        member_id = key["memberId"]
        if value is None:
            group = self._get_consumer_group(key)
            if group is not None:
                group.remove_member(member_id)
            return
        group = self._get_or_create(key["groupId"])
        before = group.members.get(member_id) or ConsumerMember(member_id=member_id)
        group.put_member(_with_metadata(before, value))

    def _target_epoch(self, key: Fields, value: Fields | None) -> None:
        group = self._get_consumer_group(key) if value is None else self._get_or_create(key["groupId"])
        if group is not None:
            group.assignment_epoch = _NO_ASSIGNMENT_EPOCH if value is None else value["assignmentEpoch"]
            group.assigned_ms = 0 if value is None else value.get("assignmentTimestamp", 0)

    def _target(self, key: Fields, value: Fields | None) -> None:
        if value is not None:
            self._get_or_create(key["groupId"]).targets[key["memberId"]] = _partitions(value["topicPartitions"])
            return
        group = self._get_consumer_group(key)
        if group is not None:
            group.targets.pop(key["memberId"], None)

    def _current(self, key: Fields, value: Fields | None) -> None:
        group, member_id = self._get_consumer_group(key), key["memberId"]
        if value is not None:
            group = self._get_or_create(key["groupId"])
            before = group.members.get(member_id) or ConsumerMember(member_id=member_id)
            group.put_member(_with_assignment(before, value))
        elif group is not None and member_id in group.members:
            group.put_member(group.members[member_id].without_assignment())

    def _regex(self, key: Fields, value: Fields | None) -> None:
        expression = key["regularExpression"]
        if value is not None:
            self._get_or_create(key["groupId"]).regexes[expression] = ResolvedRegex(
                topics=frozenset(value["topics"]), version=value["version"], resolved_ms=value["timestamp"]
            )
            return
        group = self._get_consumer_group(key)
        if group is not None:
            group.regexes.pop(expression, None)

    def _unserved(self, record: GroupRecord) -> None:
        type_ = unserved_type(record.number)
        if type_ is None:
            return
        group_id = record.key["groupId"]
        group = self._groups.get(group_id)
        if not isinstance(group, UnservedGroup) or group.type is not type_:
            if record.value is None:
                return
            group = self._groups[group_id] = UnservedGroup(group_id, type_)
        if not group.put(record):
            del self._groups[group_id]

    def _get_consumer_group(self, key: Fields) -> ConsumerGroup | None:
        group = self._groups.get(key["groupId"])
        return group if isinstance(group, ConsumerGroup) else None

    def _get_or_create(self, group_id: str) -> ConsumerGroup:
        """Return or create the consumer group. It replaces a classic group that was deleted or has only offsets."""
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            group = self._groups[group_id] = ConsumerGroup(group_id=group_id)
        return group


class GroupDraft:
    """A draft of a consumer group's change: its records so far, and the group after them.

    Each step of a change sees the group after the previous steps, although no record is written yet. The draft applies
    the records to a copy of the group, with the same code that applies written records.
    """

    def __init__(self, group: ConsumerGroup) -> None:
        self._group_id = group.group_id
        self._groups = GroupMap({group.group_id: group.copy()})
        self._replay = Replay(self._groups, OffsetStore())
        self.records: list[GroupRecord] = []

    @property
    def group(self) -> ConsumerGroup:
        return self._groups.find_consumer(self._group_id)

    def add(self, *records: GroupRecord) -> None:
        for record in records:
            self._replay.apply(record, _NO_OFFSET)
        self.records.extend(records)

    def add_unapplied(self, records: Iterable[GroupRecord]) -> None:
        """Add records about the source of the copy: the group of the other type that this one replaces."""
        self.records.extend(records)


def _with_metadata(member: ConsumerMember, value: Fields) -> ConsumerMember:
    classic = value.get("classicMemberMetadata")
    return replace(
        member,
        instance_id=value["instanceId"],
        rack_id=value["rackId"],
        client_id=value["clientId"],
        client_host=value["clientHost"],
        topic_names=frozenset(value["subscribedTopicNames"]),
        topic_regex=value["subscribedTopicRegex"],
        rebalance_timeout_ms=value["rebalanceTimeoutMs"],
        assignor=value["serverAssignor"],
        classic=None if classic is None else _classic_metadata(classic),
    )


def _classic_metadata(fields: Fields) -> ClassicMemberMetadata:
    protocols = tuple(Protocol(part["name"], part["metadata"]) for part in fields["supportedProtocols"])
    return ClassicMemberMetadata(session_timeout_ms=fields["sessionTimeoutMs"], protocols=protocols)


def _with_assignment(member: ConsumerMember, value: Fields) -> ConsumerMember:
    numbers = {int(state) for state in MemberState}
    return replace(
        member,
        member_epoch=value["memberEpoch"],
        previous_member_epoch=value["previousMemberEpoch"],
        state=MemberState(value["state"]) if value["state"] in numbers else MemberState.UNKNOWN,
        assigned=_partitions(value["assignedPartitions"]),
        pending_revocation=_partitions(value["partitionsPendingRevocation"]),
        assignment_epochs={
            (uuid_from_text(part["topicId"]), number): epoch
            for part in (*value["assignedPartitions"], *value["partitionsPendingRevocation"])
            for number, epoch in zip(part["partitions"], _epochs(part, value["memberEpoch"]), strict=True)
        },
    )


def _epochs(part: Fields, member_epoch: int) -> Sequence[int]:
    """Return the partitions' epochs. Records before Kafka 4.2 have none, so the member's epoch stands in."""
    epochs: Sequence[int] | None = part.get("assignmentEpochs")
    return epochs if epochs is not None else [member_epoch] * len(part["partitions"])


def _partitions(parts: Sequence[Fields]) -> Partitions:
    return {uuid_from_text(part["topicId"]): frozenset(part["partitions"]) for part in parts}
