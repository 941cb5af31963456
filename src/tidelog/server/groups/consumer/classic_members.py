"""Members of the classic protocol in a consumer group, while the group migrates (KIP-848).

================  =====================================================================================================
request           effect
================  =====================================================================================================
JoinGroup         like a heartbeat: it subscribes, and takes one step towards its target; the generation is its epoch
SyncGroup         the response has the member's assignment after that step
Heartbeat         REBALANCE_IN_PROGRESS while a step is due; the member has its rebalance timeout to join
LeaveGroup        it is removed
================  =====================================================================================================

A member that must give up partitions joins twice: first without them, then with the partitions that it gets instead.
Thread rule: the event loop only.
Source: ``classicGroupJoinToConsumerGroup`` of Kafka's ``GroupMetadataManager`` and its neighbouring methods.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from tidelog.model import CorruptRecordError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.groups.classic.joining import JoinRequest, refused
from tidelog.server.groups.classic.member_requests import Leaver, MemberClaim, SyncRequest
from tidelog.server.groups.consumer.consumer_change import ConsumerChange
from tidelog.server.groups.consumer.heartbeats import check_owner, replace_member
from tidelog.server.groups.consumer.migration import Migration, assignment_bytes, topic_partitions
from tidelog.server.groups.consumer.regexes import Regexes
from tidelog.server.groups.consumer.sessions import Sessions
from tidelog.server.groups.state.classic_group import NO_MEMBER
from tidelog.server.groups.state.classic_member import Reply
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.consumer_member import ClassicMemberMetadata, ConsumerMember, MemberState
from tidelog.server.groups.state.consumer_protocol import PROTOCOL_TYPE, Subscription, read_subscription
from tidelog.server.groups.state.shard_context import ShardContext


class ClassicMembers:
    """The classic protocol's requests to one shard's consumer groups."""

    def __init__(self, context: ShardContext, regexes: Regexes, sessions: Sessions, migration: Migration) -> None:
        self._context = context
        self._regexes = regexes
        self._sessions = sessions
        self._migration = migration

    def join(self, group: ConsumerGroup, request: JoinRequest, reply: Reply) -> None:
        """Reply when the member's step is written. Raise ApiError with the errors of the classic protocol."""
        is_new = request.member_id == NO_MEMBER
        member_id = str(uuid.uuid4()) if is_new else request.member_id
        self._check_join(group, request, member_id)
        if is_new and request.instance_id is None and request.requires_member_id:
            reply(refused(request, ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        subscription = _subscription(request)
        change = ConsumerChange(self._context, self._regexes, group)
        before = self._member(change, request, member_id)
        replaced = group.static_member(request.instance_id)
        is_last = replaced is not None and self._migration.downgrades_on_rejoin(group, replaced)
        has_changed = change.subscribe(before, _updated(before, request, subscription), request.visible_topics)
        change.update_group_epoch(must_grow=has_changed)
        if not is_last:
            change.assign()
        if not is_last or not has_changed:
            change.reconcile(member_id, topic_partitions(subscription.owned, self._context.topics))
        after = change.group.members[member_id]
        done = self._joined(request, after, reply)
        if is_last:
            self._migration.to_classic(change.draft, [], done, must_rebalance=has_changed)
            return
        change.write(done)
        self._sessions.cancel_expected("join", group.group_id, member_id)
        self._sessions.expect_heartbeat(group.group_id, after)
        self._sessions.expect("sync", group.group_id, after, "it sent no SyncGroup")

    def sync(self, group: ConsumerGroup, request: SyncRequest, reply: Reply) -> None:
        """Reply when the member's assignment is replicated. Raise ApiError with the errors of the classic protocol."""
        member = self._claimed(group, request.claim)
        _check_protocol(member, request)
        if group.group_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._sessions.expect("join", group.group_id, member, "it did not rejoin")
            raise ApiError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should rejoin "
                "to catch up.",
            )
        response = {
            "error_code": ErrorCode.NONE,
            "protocol_type": request.protocol_type,
            "protocol_name": request.protocol_name,
            "assignment": assignment_bytes(member, member.assigned, self._context.topics),
        }
        self._sessions.cancel_expected("sync", group.group_id, member.member_id)
        self._sessions.expect_heartbeat(group.group_id, member)
        self._context.journal.write([], lambda error: reply({"error_code": error} if error else response))

    def heartbeat(self, group: ConsumerGroup, claim: MemberClaim) -> ErrorCode:
        """Return the error code of the response. Raise ApiError if the client is not a member."""
        member = self._claimed(group, claim)
        self._sessions.expect_heartbeat(group.group_id, member)
        waits = member.state is MemberState.UNRELEASED_PARTITIONS and _waits_for_others(group, member)
        is_at_rest = member.state is MemberState.STABLE or waits
        if is_at_rest and member.member_epoch >= group.group_epoch:
            return ErrorCode.NONE
        self._sessions.expect("join", group.group_id, member, "it did not rejoin")
        return ErrorCode.REBALANCE_IN_PROGRESS

    def leave(self, group: ConsumerGroup, leavers: Sequence[Leaver], reply: Callable[[list[ErrorCode]], None]) -> None:
        """Remove the members. Reply with an error code for each of them when the removal is written."""
        results: list[ErrorCode] = []
        members: dict[str, ConsumerMember] = {}
        for leaver in leavers:
            try:
                member = _leaving(group, leaver)
                members[member.member_id] = member
                results.append(ErrorCode.NONE)
            except ApiError as error:
                results.append(error.code)
        self._sessions.remove(
            group, list(members.values()), lambda error: reply([error or result for result in results])
        )

    # --- checks ---

    def _check_join(self, group: ConsumerGroup, request: JoinRequest, member_id: str) -> None:
        max_size = self._context.settings.consumer.max_size
        if len(group.members) >= max_size and member_id not in group.members:
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        sides = [one.classic for one in group.members.values() if one.classic is not None]
        names = [{protocol.name for protocol in side.protocols} for side in sides]
        is_common = any(all(name in others for others in names) for name in request.protocol_names)
        if request.protocol_type != PROTOCOL_TYPE or not is_common:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")

    def _member(self, change: ConsumerChange, request: JoinRequest, member_id: str) -> ConsumerMember:
        group = change.group
        if request.instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id=member_id)
        static = group.static_member(request.instance_id)
        if request.member_id != NO_MEMBER:
            return check_owner(static, member_id, request.instance_id)
        if static is None:
            return ConsumerMember(member_id=member_id)
        self._sessions.cancel_timers(group.group_id, static.member_id)
        return replace_member(change, static, member_id)

    def _claimed(self, group: ConsumerGroup, claim: MemberClaim) -> ConsumerMember:
        if claim.instance_id is None:
            member = group.member(claim.member_id)
        else:
            member = check_owner(group.static_member(claim.instance_id), claim.member_id, claim.instance_id)
        if member.classic is None:
            message = f"Member {member.member_id} does not use the classic protocol."
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        if member.member_epoch != claim.generation_id:
            raise ApiError(
                ErrorCode.ILLEGAL_GENERATION,
                f"The request generation id {claim.generation_id} is not equal to the member epoch "
                f"{member.member_epoch} of member {member.member_id}.",
            )
        return member

    def _joined(self, request: JoinRequest, member: ConsumerMember, reply: Reply) -> Callable[[ErrorCode], None]:
        response = {
            "error_code": ErrorCode.NONE,
            "member_id": member.member_id,
            "generation_id": member.member_epoch,
            "protocol_type": PROTOCOL_TYPE,
            "protocol_name": request.protocols[0].name,
        }
        return lambda error: reply(refused(request, error) if error else response)


def _subscription(request: JoinRequest) -> Subscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except CorruptRecordError as error:
        message = f"Malformed embedded consumer protocol in subscription deserialization: {error}"
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message) from None


def _updated(member: ConsumerMember, request: JoinRequest, subscription: Subscription) -> ConsumerMember:
    return replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",  # the classic protocol has no regex: the client matched the topics itself
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicMemberMetadata(session_timeout_ms=request.session_timeout_ms, protocols=request.protocols),
    )


def _check_protocol(member: ConsumerMember, request: SyncRequest) -> None:
    assert member.classic is not None
    pairs = (
        (request.protocol_type, PROTOCOL_TYPE),
        (request.protocol_name, member.classic.protocols[0].name),
    )
    if any(given is not None and given != expected for given, expected in pairs):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _leaving(group: ConsumerGroup, leaver: Leaver) -> ConsumerMember:
    if leaver.instance_id is None:
        return group.member(leaver.member_id)
    static = group.static_member(leaver.instance_id)
    claimed = leaver.member_id or (static.member_id if static is not None else NO_MEMBER)
    return check_owner(static, claimed, leaver.instance_id)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return True if another member still owns a partition of the member's target."""
    return any(
        group.owner(topic_id, number) not in (None, member.member_id)
        for topic_id, numbers in group.target(member.member_id).items()
        for number in numbers - member.assigned.get(topic_id, frozenset())
    )
