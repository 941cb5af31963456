"""SyncGroup, Heartbeat and LeaveGroup of classic groups.

====================  ============================================  ===========================
state                 SyncGroup                                     Heartbeat
====================  ============================================  ===========================
Empty                 UNKNOWN_MEMBER_ID                             UNKNOWN_MEMBER_ID
PreparingRebalance    REBALANCE_IN_PROGRESS                         REBALANCE_IN_PROGRESS
CompletingRebalance   pending until the leader's is written         NONE
Stable                the member's assignment                       NONE
Dead                  COORDINATOR_NOT_AVAILABLE                     COORDINATOR_NOT_AVAILABLE
====================  ============================================  ===========================

Earlier checks return UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID to clients that are no members, and ILLEGAL_GENERATION for
another generation. A sync with another protocol than the group's gets INCONSISTENT_GROUP_PROTOCOL. A member's heartbeat
renews its session in every state except Dead.

LeaveGroup removes a member by its id, or for an administrator by its instance id:

=======================================  =====================================================
named member                             effect
=======================================  =====================================================
an instance id, no member id             that static member is removed; UNKNOWN_MEMBER_ID if unknown
a pending member id                      no longer awaited by the rebalance
a member                                 removed
any other                                UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID
=======================================  =====================================================

Each leaving member has its own error code. The group rebalances once after all removals.
Thread rule: the event loop only.
Source: ``classicGroupSync``, ``classicGroupHeartbeat`` and ``classicGroupLeave`` of Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.classic.rebalancing import Rebalancing, synced
from tidelog.server.groups.state.classic_group import NO_MEMBER, ClassicGroup, ClassicState
from tidelog.server.groups.state.classic_member import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberClaim:
    """The identity that a request claims."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    generation_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """The leader sends ``assignments`` by member id. Other members send none."""

    claim: MemberClaim
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


class Leaver(NamedTuple):
    """``reason`` is the client's text for the log."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class MemberRequests:
    """The requests of members to the classic groups of one shard, except JoinGroup."""

    def __init__(self, rebalancing: Rebalancing) -> None:
        self._rebalancing = rebalancing

    def sync(self, group: ClassicGroup, request: SyncRequest, reply: Reply) -> None:
        """Reply at once, or when the leader's assignment is written."""
        error = _claim_error(group, request.claim) or _protocol_error(group, request)
        if error is None and group.state is ClassicState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not None:
            reply({"error_code": error})
            return
        member = group.members[request.claim.member_id]
        self._rebalancing.sync_received(group, member.member_id)
        if group.state is ClassicState.STABLE:
            reply(synced(group, member))
            return
        member.sync_reply = reply
        if group.is_leader(member.member_id):
            everybody = dict.fromkeys(group.members, b"") | dict(request.assignments)
            self._rebalancing.assign(group, everybody)

    def heartbeat(self, group: ClassicGroup, claim: MemberClaim) -> ErrorCode:
        """Renew the member's session. Return the error code of its response."""
        error = _claim_error(group, claim)
        if error is not None:
            return error
        self._rebalancing.expect_heartbeat(group, group.members[claim.member_id])
        is_rebalancing = group.state is ClassicState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE

    def leave(self, group: ClassicGroup, leavers: Sequence[Leaver]) -> list[ErrorCode]:
        """Remove the members. Return an error code for each of them."""
        if group.state is ClassicState.DEAD:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(leavers)
        results = []
        for leaver in leavers:
            member_id = _member_id(group, leaver)
            error = ErrorCode.NONE if member_id in group.pending_members else _leave_error(group, leaver, member_id)
            if error is ErrorCode.NONE:
                self._rebalancing.remove_member(group, member_id)
            results.append(error)
        if ErrorCode.NONE in results:
            self._rebalance_after_removal(group)
        return results

    def _rebalance_after_removal(self, group: ClassicGroup) -> None:
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self._rebalancing.rebalance_or_complete(group, "members left")
        else:
            self._rebalancing.complete_join_if_all_joined(group)


def _claim_error(group: ClassicGroup, claim: MemberClaim) -> ErrorCode | None:
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.membership_error(claim.member_id, claim.instance_id)
    if error is None and claim.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _protocol_error(group: ClassicGroup, request: SyncRequest) -> ErrorCode | None:
    """Compare the protocols. A field that the request lacks (before v5) matches every protocol."""
    pairs = ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name))
    differs = any(None not in pair and pair[0] != pair[1] for pair in pairs)
    return ErrorCode.INCONSISTENT_GROUP_PROTOCOL if differs else None


def _member_id(group: ClassicGroup, leaver: Leaver) -> str:
    if leaver.member_id == NO_MEMBER and leaver.instance_id is not None:
        return group.static_members.get(leaver.instance_id, NO_MEMBER)
    return leaver.member_id


def _leave_error(group: ClassicGroup, leaver: Leaver, member_id: str) -> ErrorCode:
    return group.membership_error(member_id, leaver.instance_id) or ErrorCode.NONE
