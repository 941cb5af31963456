"""The only record of a classic group, ``GroupMetadata`` (type 2): generation, members, assignment.

It is written when the leader has assigned, when a static member is replaced, and when the group is new or empty. No
record describes a rebalance in progress, so a new coordinator finds the previous generation, as stable. Pure.
Source: Kafka's ``GroupCoordinatorRecordHelpers.newGroupMetadataRecord``, ``GroupMetadataManager.replay``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.server.groups.state.classic_group import ClassicGroup, ClassicState
from tidelog.server.groups.state.classic_member import ClassicMember, Protocol

GROUP_METADATA = 2
_VERSION = 3
_NO_TIME = -1


def group_metadata(group: ClassicGroup, assignments: Mapping[str, bytes]) -> GroupRecord:
    """Return the record of the group's current state, with these assignments by member id."""
    members = [
        {
            "memberId": member.member_id,
            "groupInstanceId": member.instance_id,
            "clientId": member.client_id,
            "clientHost": member.client_host,
            "rebalanceTimeout": member.rebalance_timeout_ms,
            "sessionTimeout": member.session_timeout_ms,
            "subscription": member.metadata(group.protocol_name),
            "assignment": assignments[member.member_id],
        }
        for member in group.members.values()
    ]
    value = {
        "protocolType": group.protocol_type or "",
        "generation": group.generation_id,
        "protocol": group.protocol_name,
        "leader": group.leader_id,
        "currentStateTimestamp": _changed_ms(group),
        "members": members,
    }
    return GroupRecord(GROUP_METADATA, {"group": group.group_id}, value, _VERSION)


def new_group(group: ClassicGroup) -> GroupRecord:
    """Return the record of a group that has had no generation yet."""
    value = {
        "protocolType": "",
        "generation": 0,
        "protocol": None,
        "leader": None,
        "currentStateTimestamp": _changed_ms(group),
        "members": [],
    }
    return GroupRecord(GROUP_METADATA, {"group": group.group_id}, value, _VERSION)


def group_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(GROUP_METADATA, {"group": group_id}, None)


def read_group(group_id: str, value: Mapping[str, Any]) -> ClassicGroup:
    """Build the group from its record: stable, or empty if it has no members."""
    changed_ms = value.get("currentStateTimestamp", _NO_TIME)
    group = ClassicGroup(
        group_id=group_id,
        generation_id=value["generation"],
        state=ClassicState.STABLE if value["members"] else ClassicState.EMPTY,
        state_changed_ms=None if changed_ms == _NO_TIME else changed_ms,
        protocol_type=value["protocolType"] or None,
        protocol_name=value["protocol"],
        leader_id=value["leader"],
    )
    for fields in value["members"]:
        group.add(_read_member(value, fields))
    group.subscribed_topics = group.read_subscribed_topics()
    return group


def _changed_ms(group: ClassicGroup) -> int:
    return _NO_TIME if group.state_changed_ms is None else group.state_changed_ms


def _read_member(value: Mapping[str, Any], fields: Mapping[str, Any]) -> ClassicMember:
    """Build a member. The record has only the chosen protocol, so only that one counts until the member's next join."""
    rebalance_timeout_ms = fields.get("rebalanceTimeout", -1)
    return ClassicMember(
        member_id=fields["memberId"],
        instance_id=fields.get("groupInstanceId"),
        client_id=fields["clientId"],
        client_host=fields["clientHost"],
        rebalance_timeout_ms=fields["sessionTimeout"] if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms=fields["sessionTimeout"],
        protocol_type=value["protocolType"],
        protocols=(Protocol(value["protocol"], fields["subscription"]),),
        assignment=fields["assignment"],
    )
