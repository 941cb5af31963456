"""LeaveGroup of classic groups: removal by member id, or by an administrator with the instance id.

=======================================  =====================================================
named member                             effect
=======================================  =====================================================
an instance id, no member id             that static member is removed; UNKNOWN_MEMBER_ID if unknown
a pending member id                      no longer awaited by the rebalance
a member                                 removed
any other                                UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID
=======================================  =====================================================

Each member has its own error code. The group rebalances once after all removals.
Thread rule: the event loop only. Source: Kafka's ``GroupMetadataManager.classicGroupLeave``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.classic.classic_group import NO_MEMBER, ClassicGroup
from tidelog.server.groups.classic.classic_state import ClassicState
from tidelog.server.groups.classic.rebalancing import Rebalancing


class Leaver(NamedTuple):
    """``reason`` is the client's text for the log."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


def leave(group: ClassicGroup, leavers: Sequence[Leaver], rebalancing: Rebalancing) -> list[ErrorCode]:
    """Remove the members. Return an error code for each of them."""
    if group.state is ClassicState.DEAD:
        return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(leavers)
    results = []
    for leaver in leavers:
        member_id = _member_id(group, leaver)
        error = ErrorCode.NONE if member_id in group.pending_members else _leave_error(group, leaver, member_id)
        if error is ErrorCode.NONE:
            rebalancing.remove_member(group, member_id)
        results.append(error)
    if ErrorCode.NONE in results:
        _rebalance_after_removal(group, rebalancing)
    return results


def _member_id(group: ClassicGroup, leaver: Leaver) -> str:
    if leaver.member_id == NO_MEMBER and leaver.instance_id is not None:
        return group.static_members.get(leaver.instance_id, NO_MEMBER)
    return leaver.member_id


def _leave_error(group: ClassicGroup, leaver: Leaver, member_id: str) -> ErrorCode:
    return group.membership_error(member_id, leaver.instance_id) or ErrorCode.NONE


def _rebalance_after_removal(group: ClassicGroup, rebalancing: Rebalancing) -> None:
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        rebalancing.rebalance_or_complete(group, "members left")
    else:
        rebalancing.complete_join_if_all_joined(group)
