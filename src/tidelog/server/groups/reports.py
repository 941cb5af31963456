"""Responses of ListGroups, DescribeGroups and ConsumerGroupDescribe. Pure.

Groups of all types are listed. Each describe API covers one type, and returns GROUP_ID_NOT_FOUND for other groups
(DescribeGroups before v6 returns a Dead group). Metadata and assignments of classic members are returned only while
their group is stable.
Source: Kafka's ``GroupMetadataManager.listGroups``, ``describeGroups``, ``consumerGroupDescribe``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tidelog.protocol.errors import ApiError
from tidelog.server.groups.state.classic_group import ClassicGroup, ClassicState
from tidelog.server.groups.state.classic_member import ClassicMember
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.consumer_member import ConsumerMember, Partitions
from tidelog.server.groups.state.consumer_protocol import PROTOCOL_TYPE
from tidelog.server.groups.state.group_map import Group, GroupMap
from tidelog.server.groups.state.group_topics import Topics
from tidelog.server.groups.state.unserved_group import UnservedGroup

if TYPE_CHECKING:
    from tidelog.protocol.message_types import groups as wire

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1
_FIRST_VERSION_WITH_ERRORS = 6


def listed_groups(groups: GroupMap, states: Collection[str], types: Collection[str]) -> list[wire.ListedGroup]:
    """Return the groups of ``states`` and ``types``, ignoring case. An empty filter matches all groups."""
    wanted_states = {state.lower() for state in states}
    wanted_types = {type_.lower() for type_ in types}
    return [
        {
            "group_id": group.group_id,
            "protocol_type": group_protocol_type(group),
            "group_state": str(group.state),
            "group_type": group_type(group),
        }
        for group in groups.values()
        if (not wanted_states or group.state.lower() in wanted_states)
        and (not wanted_types or group_type(group) in wanted_types)
    ]


def described_group(groups: GroupMap, group_id: str, version: int) -> wire.DescribeGroupsResponseDescribedGroup:
    """Describe one classic group for DescribeGroups."""
    try:
        group = groups.find_classic(group_id)
    except ApiError as error:
        dead: wire.DescribeGroupsResponseDescribedGroup = {"group_id": group_id, "group_state": str(ClassicState.DEAD)}
        if version < _FIRST_VERSION_WITH_ERRORS:
            return dead
        return {**dead, "error_code": error.code, "error_message": error.message}
    is_stable = group.state is ClassicState.STABLE
    return {
        "group_id": group_id,
        "group_state": str(group.state),
        "protocol_type": group.protocol_type or "",
        "protocol_data": (group.protocol_name or "") if is_stable else "",
        "members": [
            _described_member(member, group.protocol_name if is_stable else None) for member in group.members.values()
        ],
    }


def described_consumer_group(
    groups: GroupMap, group_id: str, default_assignor: str, topics: Topics
) -> wire.ConsumerGroupDescribeResponseDescribedGroup:
    """Describe one consumer group for ConsumerGroupDescribe."""
    try:
        group = groups.find_consumer(group_id)
    except ApiError as error:
        return {"group_id": group_id, "error_code": error.code, "error_message": error.message}
    return {
        "group_id": group_id,
        "group_state": str(group.state),
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.preferred_assignor or default_assignor,
        "members": [_described_consumer(group, member, topics) for member in group.members.values()],
    }


def _described_member(member: ClassicMember, protocol_name: str | None) -> wire.DescribedGroupMember:
    described: wire.DescribedGroupMember = {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
    }
    if protocol_name is not None:
        described |= {"member_metadata": member.metadata(protocol_name), "member_assignment": member.assignment}
    return described


def _described_consumer(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> wire.Member:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.topic_names),
        "subscribed_topic_regex": member.topic_regex or "",
        "assignment": _described_partitions(member.assigned, topics),
        "target_assignment": _described_partitions(group.target(member.member_id), topics),
        "member_type": _CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    }


def _described_partitions(partitions: Partitions, topics: Topics) -> wire.ConsumerGroupDescribeResponseAssignment:
    """Return the partitions with topic names. Deleted topics are omitted because their names are unknown."""
    found = ((topics.by_id(topic_id), numbers) for topic_id, numbers in partitions.items())
    return {
        "topic_partitions": [
            {"topic_id": topic.id, "topic_name": topic.name, "partitions": sorted(numbers)}
            for topic, numbers in found
            if topic is not None
        ]
    }


def group_protocol_type(group: Group) -> str:
    """Return the protocol type for ListGroups, such as ``consumer`` or ``connect``. It is empty if there is none."""
    if isinstance(group, UnservedGroup):
        return group.type
    return PROTOCOL_TYPE if isinstance(group, ConsumerGroup) else group.protocol_type or ""


def group_type(group: Group) -> str:
    """Return Kafka's name of the type: classic, consumer, share or streams."""
    if isinstance(group, UnservedGroup):
        return group.type
    return "classic" if isinstance(group, ClassicGroup) else "consumer"
