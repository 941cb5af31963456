"""LeaveGroup of classic groups: members go, by their id or, for an administrator, by their instance id.

=======================================  =====================================================
who is named                             what follows
=======================================  =====================================================
an instance id, no member id             that static member goes; UNKNOWN_MEMBER_ID if none
a pending member id                      nobody waits for it any more
a member                                 it goes
anybody else                             UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID
=======================================  =====================================================

Each is answered by itself; after those who may go have gone the group rebalances once. Called by: the handler.
Thread rule: the loop's thread. Source: Kafka's ``GroupMetadataManager.classicGroupLeave``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.classic.classic_group import NO_MEMBER, ClassicGroup
from tidelog.server.groups.classic.classic_state import ClassicState
from tidelog.server.groups.classic.rebalancing import Rebalancing


class Leaver(NamedTuple):
    """``reason`` is the client's, for the log."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


def leave(group: ClassicGroup, leavers: Sequence[Leaver], rebalancing: Rebalancing) -> list[ErrorCode]:
    """What each of them is told."""
    if group.state is ClassicState.DEAD:
        return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(leavers)
    results = []
    for leaver in leavers:
        member_id = _member_id(group, leaver)
        refusal = ErrorCode.NONE if member_id in group.pending_members else _refusal(group, leaver, member_id)
        if refusal is ErrorCode.NONE:
            rebalancing.remove_member(group, member_id)
        results.append(refusal)
    if ErrorCode.NONE in results:
        _go_on(group, rebalancing)
    return results


def _member_id(group: ClassicGroup, leaver: Leaver) -> str:
    if leaver.member_id == NO_MEMBER and leaver.instance_id is not None:
        return group.static_members.get(leaver.instance_id, NO_MEMBER)
    return leaver.member_id


def _refusal(group: ClassicGroup, leaver: Leaver, member_id: str) -> ErrorCode:
    return group.refusal(member_id, leaver.instance_id) or ErrorCode.NONE


def _go_on(group: ClassicGroup, rebalancing: Rebalancing) -> None:
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        rebalancing.rebalance_or_complete(group, "members left")
    else:
        rebalancing.complete_join_if_all_are_there(group)
