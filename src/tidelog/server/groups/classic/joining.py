"""JoinGroup of classic groups: the checks of a joining client, and the effects of its join.

=====================================  ===================  ========================================================
client                                 state                effect
=====================================  ===================  ========================================================
no member id, no instance id           any                  MEMBER_ID_REQUIRED with a new id for the next join (v4+);
                                                            before v4 it is added at once
no member id, a new instance id        any                  added
no member id, a known instance id      any                  replaces the previous member; no rebalance in a stable
                                                            group if the protocol stays the same
pending member id                      any                  added
member                                 PreparingRebalance   waits for the others
member                                 CompletingRebalance  with the same protocols it gets its response again (the
                                                            first may be lost); otherwise the group rebalances
member                                 Stable               for the leader, or other protocols, the group
                                                            rebalances; other members get their response again
member                                 Empty, Dead          UNKNOWN_MEMBER_ID, COORDINATOR_NOT_AVAILABLE
=====================================  ===================  ========================================================

Thread rule: the event loop only. Source: Kafka's ``GroupMetadataManager.classicGroupJoin``; KIP-394 (member ids first),
KIP-345 (static members), KIP-814 (no second assignment).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.classic.rebalancing import Rebalancing, joined
from tidelog.server.groups.records.classic_records import group_metadata, new_group
from tidelog.server.groups.state.classic_group import NO_GENERATION, NO_MEMBER, ClassicGroup, ClassicState
from tidelog.server.groups.state.classic_member import ClassicMember, Protocol, Reply, ResponseFields
from tidelog.server.groups.state.group_topics import VisibleTopics, every_topic
from tidelog.server.groups.state.shard_context import ShardContext


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A JoinGroup request and its client. ``reason`` is the client's text for the log."""

    group_id: str
    member_id: str = NO_MEMBER
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    reason: str = "not provided"
    requires_member_id: bool = True
    """True from v4 on: a new dynamic member gets its id first, and joins with it."""
    may_skip_assignment: bool = True
    """True from v9 on: the response can say that a returning static leader need not assign."""
    visible_topics: VisibleTopics = every_topic

    @property
    def protocol_names(self) -> list[str]:
        return [protocol.name for protocol in self.protocols]


class Joining:
    """The JoinGroup requests to the classic groups of one shard."""

    def __init__(self, context: ShardContext, rebalancing: Rebalancing) -> None:
        self._context = context
        self._rebalancing = rebalancing

    def join(self, request: JoinRequest, reply: Reply) -> None:
        """Reply at once, or when the rebalance has its members."""
        group = self._context.groups.get(request.group_id)
        if group is None and request.member_id != NO_MEMBER:
            reply(refused(request, ErrorCode.UNKNOWN_MEMBER_ID))
            return
        is_new_group = group is None
        group = self._context.groups.find_or_create_classic(request.group_id, self._context.timers.now_ms())
        if not self._has_room(group, request.member_id):
            group.remove(request.member_id)
            reply(refused(request, ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER))
        elif group.state is ClassicState.DEAD:
            reply(refused(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif not group.supports(request.protocol_type, request.protocol_names):
            reply(refused(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif request.member_id == NO_MEMBER:
            self._join_new(group, request, reply)
        elif request.member_id in group.pending_members:
            self._add(group, request, request.member_id, reply)
        else:
            self._join_again(group, request, reply)
        if is_new_group:
            self._write_new(group, request)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        max_size = self._context.settings.max_size
        member = group.members.get(member_id)
        if group.state in (ClassicState.EMPTY, ClassicState.DEAD):
            return True
        if group.state is ClassicState.PREPARING_REBALANCE:
            return (member is not None and member.is_joining) or group.joining_count < max_size
        return member is not None or len(group.members) < max_size

    def _join_new(self, group: ClassicGroup, request: JoinRequest, reply: Reply) -> None:
        member_id = group.new_member_id(request.client_id, request.instance_id)
        if request.instance_id in group.static_members:
            self._replace_static(group, request, member_id, reply)
        elif request.instance_id is None and request.requires_member_id:
            self._rebalancing.add_pending(group, member_id, request.session_timeout_ms)
            reply(refused(request, ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(group, request, member_id, reply)

    def _join_again(self, group: ClassicGroup, request: JoinRequest, reply: Reply) -> None:
        error = group.membership_error(request.member_id, request.instance_id)
        if error is not None:
            reply(refused(request, error))
            return
        member = group.members[request.member_id]
        is_same = member.protocols == request.protocols
        is_stable_leader = group.state is ClassicState.STABLE and group.is_leader(member.member_id)
        if group.state is not ClassicState.PREPARING_REBALANCE and is_same and not is_stable_leader:
            reply(joined(group, member.member_id))
            return
        self._update(group, member, request, reply)
        reason = f"member {member.member_id} joins again while {group.state}; client reason: {request.reason}"
        self._rebalancing.rebalance_or_complete(group, reason)

    def _add(self, group: ClassicGroup, request: JoinRequest, member_id: str, reply: Reply) -> None:
        member = ClassicMember(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=request.protocols,
            is_new=True,
            join_reply=reply,
        )
        if group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is ClassicState.EMPTY:
            group.has_new_member = True
        group.add(member)
        # The client may disappear before the rebalance ends, and it sends no heartbeats while it waits.
        self._rebalancing.expect_heartbeat(group, member, self._context.settings.new_member_join_timeout_ms)
        reason = f"member {member_id} joins with instance id {request.instance_id}; client reason: {request.reason}"
        self._rebalancing.rebalance_or_complete(group, reason)

    def _update(self, group: ClassicGroup, member: ClassicMember, request: JoinRequest, reply: Reply | None) -> None:
        group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms, reply)

    def _replace_static(self, group: ClassicGroup, request: JoinRequest, member_id: str, reply: Reply) -> None:
        assert request.instance_id is not None
        leader_before = group.leader_id or NO_MEMBER
        old = group.members[group.static_members[request.instance_id]]
        member = group.replace_static(request.instance_id, member_id)
        self._rebalancing.expect_heartbeat(group, member)
        self._update(group, member, request, reply)
        reason = f"static member {member_id} with instance id {request.instance_id} replaces its predecessor"
        if group.state is ClassicState.STABLE and group.choose_protocol() == group.protocol_name:
            self._write_replaced(group, member, old, leader_before, request)
        elif group.state is ClassicState.STABLE:
            self._rebalancing.rebalance_or_complete(group, f"{reason}; another protocol is chosen")
        elif group.state is ClassicState.COMPLETING_REBALANCE:
            self._rebalancing.prepare(group, reason)
        else:
            self._rebalancing.complete_join_if_all_joined(group)

    def _write_replaced(
        self, group: ClassicGroup, member: ClassicMember, old: ClassicMember, leader_before: str, request: JoinRequest
    ) -> None:
        """Write the group without a rebalance: the new static member keeps its predecessor's assignment."""
        reply = member.join_reply

        def done(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                group.complete_join_reply(member, self._replaced(group, member, leader_before, request))
                return
            member.join_reply = None
            self._restore_replaced(group, member, old)
            if reply is not None:
                reply({**joined(group, NO_MEMBER), "error_code": error, "leader": leader_before})

        self._context.journal.write([group_metadata(group, group.assignments)], done, apply=False)

    def _replaced(
        self, group: ClassicGroup, member: ClassicMember, leader_before: str, request: JoinRequest
    ) -> ResponseFields:
        if request.may_skip_assignment:
            return joined(group, member.member_id, skip_assignment=group.is_leader(member.member_id))
        # With the leader's old id in the response, the member does not see itself as the leader and does not assign.
        return {**joined(group, member.member_id), "leader": leader_before, "members": []}

    def _restore_replaced(self, group: ClassicGroup, member: ClassicMember, old: ClassicMember) -> None:
        assert member.instance_id is not None
        group.update(member, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms, None)
        restored = group.replace_static(member.instance_id, old.member_id)
        self._rebalancing.expect_heartbeat(group, restored)

    def _write_new(self, group: ClassicGroup, request: JoinRequest) -> None:
        """Write the group from its first member on, so that no group of another type can take its id."""

        def done(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                for member in group.members.values():
                    group.complete_join_reply(member, refused(request, error, member.member_id))

        self._context.journal.write([new_group(group)], done, apply=False)


def refused(request: JoinRequest, error: ErrorCode, member_id: str | None = None) -> ResponseFields:
    """Return the response of a failed join. Without ``member_id`` it has the request's member id."""
    return {
        "error_code": error,
        "generation_id": NO_GENERATION,
        "protocol_name": None,
        "leader": NO_MEMBER,
        "member_id": request.member_id if member_id is None else member_id,
    }
