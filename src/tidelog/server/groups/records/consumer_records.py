"""The records of consumer groups and the functions that build them. Pure.

====  ===========================================  =================================================================
type  record                                       written when
====  ===========================================  =================================================================
3     ConsumerGroupMetadata                        the group epoch grows
4     ConsumerGroupPartitionMetadata               only as a tombstone: the hash in type 3 replaces this record of
                                                   Kafka 4.0 and before
5     ConsumerGroupMemberMetadata                  a member joins, or changes its subscription or identity
6     ConsumerGroupTargetAssignmentMetadata        a target assignment is complete (its last record)
7     ConsumerGroupTargetAssignmentMember          a member's target changes
8     ConsumerGroupCurrentMemberAssignment         a member took a step towards its target
16    ConsumerGroupRegularExpression               a regular expression was matched with the topics
====  ===========================================  =================================================================

A removed member gets tombstones of types 8, 7 and 5, in this sequence. A deleted group gets tombstones of all its
records, type 3 last. ``replay`` applies the records to the state. Source: Kafka's ``GroupCoordinatorRecordHelpers``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidelog.model.kafka_uuid import uuid_to_text
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.server.groups.state.consumer_group import ConsumerGroup, ResolvedRegex
from tidelog.server.groups.state.consumer_member import AssignmentEpochs, ConsumerMember, Partitions

GROUP_EPOCH = 3
PARTITION_METADATA = 4
MEMBER = 5
TARGET_EPOCH = 6
TARGET = 7
CURRENT = 8
REGEX = 16


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(GROUP_EPOCH, {"groupId": group_id}, {"epoch": epoch, "metadataHash": metadata_hash})


def member_metadata(group_id: str, member: ConsumerMember) -> GroupRecord:
    classic: dict[str, Any] | None = None
    if member.classic is not None:
        classic = {
            "sessionTimeoutMs": member.classic.session_timeout_ms,
            "supportedProtocols": [protocol._asdict() for protocol in member.classic.protocols],
        }
    value = {
        "instanceId": member.instance_id,
        "rackId": member.rack_id,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "subscribedTopicNames": sorted(member.topic_names),
        "subscribedTopicRegex": member.topic_regex,
        "rebalanceTimeoutMs": member.rebalance_timeout_ms,
        "serverAssignor": member.assignor,
        "classicMemberMetadata": classic,
    }
    return GroupRecord(MEMBER, _member_key(group_id, member.member_id), value)


def target_epoch(group_id: str, epoch: int, assigned_ms: int) -> GroupRecord:
    value = {"assignmentEpoch": epoch, "assignmentTimestamp": assigned_ms}
    return GroupRecord(TARGET_EPOCH, {"groupId": group_id}, value)


def target(group_id: str, member_id: str, partitions: Partitions) -> GroupRecord:
    value = {"topicPartitions": _topic_partitions(partitions)}
    return GroupRecord(TARGET, _member_key(group_id, member_id), value)


def current(group_id: str, member: ConsumerMember) -> GroupRecord:
    value = {
        "memberEpoch": member.member_epoch,
        "previousMemberEpoch": member.previous_member_epoch,
        "state": int(member.state),
        "assignedPartitions": _with_epochs(member.assigned, member.assignment_epochs),
        "partitionsPendingRevocation": _with_epochs(member.pending_revocation, member.assignment_epochs),
    }
    return GroupRecord(CURRENT, _member_key(group_id, member.member_id), value)


def regex(group_id: str, expression: str, resolved: ResolvedRegex) -> GroupRecord:
    value = {"topics": sorted(resolved.topics), "version": resolved.version, "timestamp": resolved.resolved_ms}
    return GroupRecord(REGEX, {"groupId": group_id, "regularExpression": expression}, value)


def regex_tombstone(group_id: str, expression: str) -> GroupRecord:
    return GroupRecord(REGEX, {"groupId": group_id, "regularExpression": expression}, None)


def partition_metadata_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(PARTITION_METADATA, {"groupId": group_id}, None)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """Return a member's tombstones: current assignment, then target, then the member itself."""
    key = _member_key(group_id, member_id)
    return [GroupRecord(number, key, None) for number in (CURRENT, TARGET, MEMBER)]


def group_tombstones(group: ConsumerGroup) -> list[GroupRecord]:
    """Return the tombstones of the group and all its members."""
    group_id = group.group_id
    key = {"groupId": group_id}
    return [
        *_of_each_member(group_id, CURRENT, group.members),
        *_of_each_member(group_id, TARGET, group.members),
        GroupRecord(TARGET_EPOCH, key, None),
        *_of_each_member(group_id, MEMBER, group.members),
        *(regex_tombstone(group_id, expression) for expression in group.regexes),
        partition_metadata_tombstone(group_id),
        GroupRecord(GROUP_EPOCH, key, None),
    ]


def group_records(group: ConsumerGroup) -> list[GroupRecord]:
    """Return all records of a group, as they are written when a group of the other type is converted."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(member_metadata(group_id, member) for member in members),
        group_epoch(group_id, group.group_epoch, group.metadata_hash),
        *(target(group_id, member.member_id, group.target(member.member_id)) for member in members),
        target_epoch(group_id, group.assignment_epoch, group.assigned_ms),
        *(current(group_id, member) for member in members),
    ]


def _member_key(group_id: str, member_id: str) -> dict[str, Any]:
    return {"groupId": group_id, "memberId": member_id}


def _of_each_member(group_id: str, number: int, member_ids: Iterable[str]) -> list[GroupRecord]:
    return [GroupRecord(number, _member_key(group_id, member_id), None) for member_id in member_ids]


def _topic_partitions(partitions: Partitions) -> list[dict[str, Any]]:
    return [
        {"topicId": uuid_to_text(topic_id), "partitions": sorted(numbers)} for topic_id, numbers in partitions.items()
    ]


def _with_epochs(partitions: Partitions, epochs: AssignmentEpochs) -> list[dict[str, Any]]:
    return [
        {
            "topicId": uuid_to_text(topic_id),
            "partitions": sorted(numbers),
            "assignmentEpochs": [epochs[topic_id, number] for number in sorted(numbers)],
        }
        for topic_id, numbers in partitions.items()
    ]
