"""SyncGroup and Heartbeat of classic groups.

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
renews its session in every state except Dead. Thread rule: the event loop only.
Source: Kafka's ``GroupMetadataManager.classicGroupSync``, ``classicGroupHeartbeat``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.classic.classic_group import ClassicGroup
from tidelog.server.groups.classic.classic_member import Reply
from tidelog.server.groups.classic.classic_state import ClassicState
from tidelog.server.groups.classic.rebalancing import Rebalancing, synced


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


class Syncing:
    """The SyncGroup and Heartbeat requests to the classic groups of one shard."""

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
