"""ConsumerGroupHeartbeat (KIP-848): the only request of a consumer group's member, for its whole life.

==================  ==================================  =========================================================
epoch in request    client                              effect
==================  ==================================  =========================================================
0                   any                                 it joins; a static member replaces one that left or is
                                                        classic (else UNRELEASED_INSTANCE_ID)
its own             a member                            it continues
its previous one    a member that missed our response   it continues, if all its partitions are in its assignment
any other           a member                            FENCED_MEMBER_EPOCH: it must rejoin
-1                  a member                            it leaves
-2                  a static member                     it is away, with its partitions, for one session timeout
==================  ==================================  =========================================================

The response carries the member epoch. It includes the assignment if that changed, if the member is joining, or if the
request was a full one. Thread rule: the event loop only.
Source: Kafka's ``GroupMetadataManager.consumerGroupHeartbeat``.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.groups.consumer.consumer_change import ConsumerChange
from tidelog.server.groups.consumer.migration import Migration
from tidelog.server.groups.consumer.reconciliation import NOTHING, Owned
from tidelog.server.groups.consumer.regexes import Regexes
from tidelog.server.groups.consumer.sessions import Sessions
from tidelog.server.groups.records import consumer_records
from tidelog.server.groups.records.classic_records import group_tombstone
from tidelog.server.groups.records.consumer_records import group_records
from tidelog.server.groups.state.classic_member import Reply, ResponseFields
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.consumer_member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    Partitions,
)
from tidelog.server.groups.state.group_topics import VisibleTopics, every_topic
from tidelog.server.groups.state.shard_context import ShardContext
from tidelog.server.groups.state.unserved_group import UnservedGroup

NOT_GIVEN = -1
_CLIENT_MAKES_MEMBER_IDS = 1
"""The first version of the request in which clients generate member ids (KIP-1082)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A ConsumerGroupHeartbeat and its client. None is an omitted field, which is unchanged since the last request."""

    group_id: str
    member_id: str = ""
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_GIVEN
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: Owned = None
    client_id: str = ""
    client_host: str = ""
    visible_topics: VisibleTopics = every_topic

    @property
    def is_joining(self) -> bool:
        return self.member_epoch == JOINING_EPOCH

    @property
    def is_full(self) -> bool:
        """True if it has timeout, subscription and partitions, as after an error. The response is then full too."""
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != NOT_GIVEN and has_subscription and self.owned is not None


def check_request(request: HeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raise ApiError for requests invalid in every group, by the rules of Kafka's ``GroupCoordinatorService``."""
    is_generated_by_client = version >= _CLIENT_MAKES_MEMBER_IDS
    if is_generated_by_client or request.member_epoch > 0 or request.member_epoch == LEAVING_EPOCH:
        _require(request.member_id, "MemberId can't be empty.")
    _require(request.group_id, "GroupId can't be empty.")
    _require(request.instance_id != "", "InstanceId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    if request.is_joining:
        _require(request.rebalance_timeout_ms != NOT_GIVEN, "RebalanceTimeoutMs must be provided in first request.")
        _require(request.owned == {}, "TopicPartitions must be empty when (re-)joining.")
        has_subscription = request.topic_names is not None or request.topic_regex is not None
        message = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        _require(has_subscription, message)
    elif request.member_epoch == STATIC_LEAVING_EPOCH:
        _require(request.instance_id, "InstanceId can't be null.")
    else:
        _require(request.member_epoch >= LEAVING_EPOCH, "MemberEpoch is invalid.")
    if request.assignor is not None and request.assignor not in assignors:
        message = f"ServerAssignor {request.assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        raise ApiError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


class Heartbeats:
    """The ConsumerGroupHeartbeat requests of one shard."""

    def __init__(self, context: ShardContext, regexes: Regexes, sessions: Sessions, migration: Migration) -> None:
        self._context = context
        self._regexes = regexes
        self._sessions = sessions
        self._migration = migration

    def heartbeat(self, request: HeartbeatRequest, reply: Reply) -> None:
        """Reply when the changes are written. Raise ApiError if the request is invalid."""
        if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
            self._leave(request, reply)
            return
        change = self._start_change(request)
        self._check_size(change.group, request.member_id)
        if not request.member_id:
            request = replace(request, member_id=str(uuid.uuid4()))
        before = self._member(change, request)
        has_changed = change.subscribe(before, _updated(before, request), request.visible_topics)
        change.update_group_epoch(must_grow=has_changed)
        change.assign()
        after = change.reconcile(request.member_id, request.owned)
        response = self._response(request, before, after)
        change.write(lambda error: reply(response if error is ErrorCode.NONE else {"error_code": error}))
        self._sessions.expect_heartbeat(request.group_id, after)
        self._sessions.update_revocation_timer(request.group_id, before, after)

    # --- group and member ---

    def _start_change(self, request: HeartbeatRequest) -> ConsumerChange:
        """Start a change to the group. A joining member creates a missing group or upgrades an eligible classic one."""
        group = self._context.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return ConsumerChange(self._context, self._regexes, group)
        if not request.is_joining or isinstance(group, UnservedGroup):
            what = "Consumer group {} not found." if group is None else "Group {} is not a consumer group."
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, what.format(request.group_id))
        if group is None or group.is_empty:
            change = ConsumerChange(self._context, self._regexes, ConsumerGroup(group_id=request.group_id))
            if group is not None:
                change.draft.add_unapplied([group_tombstone(group.group_id)])
            return change
        converted = self._migration.to_consumer(group)
        change = ConsumerChange(self._context, self._regexes, converted)
        change.draft.add_unapplied([group_tombstone(group.group_id), *group_records(converted)])
        for member in converted.members.values():
            self._sessions.expect_heartbeat(converted.group_id, member)
        return change

    def _check_size(self, group: ConsumerGroup, member_id: str) -> None:
        max_size = self._context.settings.consumer.max_size
        if len(group.members) >= max_size and member_id not in group.members:
            raise ApiError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {max_size} members.",
            )

    def _member(self, change: ConsumerChange, request: HeartbeatRequest) -> ConsumerMember:
        """Return the member before the request. A joining member is blank, or takes the place of a static member."""
        group = change.group
        static = group.static_member(request.instance_id)
        if request.instance_id is None:
            is_known = not request.is_joining or request.member_id in group.members
            member = group.member(request.member_id) if is_known else ConsumerMember(member_id=request.member_id)
            _check_epoch(member, request)
            return member
        if request.is_joining:
            return self._joining_static(change, request, static)
        member = _claimed(static, request)
        _check_epoch(member, request)
        return member

    def _joining_static(
        self, change: ConsumerChange, request: HeartbeatRequest, static: ConsumerMember | None
    ) -> ConsumerMember:
        if static is None:
            found = change.group.members.get(request.member_id)
            return found or ConsumerMember(member_id=request.member_id)
        if not static.is_away and static.classic is None:
            raise ApiError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group "
                f"because the instance id is owned by {static.member_id} member.",
            )
        member = replace_member(change, static, request.member_id)
        self._sessions.cancel_timers(request.group_id, static.member_id)
        return member

    # --- leaving ---

    def _leave(self, request: HeartbeatRequest, reply: Reply) -> None:
        group = self._context.groups.find_consumer(request.group_id)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = _claimed(group.static_member(request.instance_id), request)
        response = {
            "error_code": ErrorCode.NONE,
            "member_id": member.member_id,
            "member_epoch": request.member_epoch,
        }

        def done(error: ErrorCode) -> None:
            reply(response if error is ErrorCode.NONE else {"error_code": error})

        if request.instance_id is not None and request.member_epoch == STATIC_LEAVING_EPOCH:
            self._context.journal.write([consumer_records.current(group.group_id, member.away())], done)
        else:
            self._sessions.remove(group, [member], done)

    # --- the response ---

    def _response(self, request: HeartbeatRequest, before: ConsumerMember, after: ConsumerMember) -> ResponseFields:
        response: dict[str, Any] = {
            "error_code": ErrorCode.NONE,
            "member_id": after.member_id,
            "member_epoch": after.member_epoch,
            "heartbeat_interval": self._context.timeouts(request.group_id).heartbeat_interval_ms,
        }
        if request.is_joining or request.is_full or after.assigned != before.assigned:
            response["assignment"] = {
                "topic_partitions": [
                    {"topic_id": topic_id, "partitions": sorted(numbers)}
                    for topic_id, numbers in after.assigned.items()
                ]
            }
        return response


def replace_member(change: ConsumerChange, old: ConsumerMember, new_member_id: str) -> ConsumerMember:
    """Give a returning static member with a new member id the assignment and target of its predecessor."""
    group_id, target = change.group.group_id, change.group.target(old.member_id)
    new = replace(old, member_id=new_member_id, member_epoch=JOINING_EPOCH, previous_member_epoch=JOINING_EPOCH)
    change.draft.add(
        *consumer_records.member_tombstones(group_id, old.member_id),
        consumer_records.member_metadata(group_id, new),
        consumer_records.target(group_id, new_member_id, target),
        consumer_records.current(group_id, new),
    )
    return new


def check_owner(static: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the static member, if it has this member id. Raise ApiError(UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID)."""
    if static is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if static.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {static.member_id}.",
        )
    return static


def _require(holds: object, message: str) -> None:
    if not holds:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _claimed(static: ConsumerMember | None, request: HeartbeatRequest) -> ConsumerMember:
    return check_owner(static, request.member_id, request.instance_id or "")


def _check_epoch(member: ConsumerMember, request: HeartbeatRequest) -> None:
    epoch = request.member_epoch
    if epoch == member.member_epoch:
        return
    missed_our_response = epoch == member.previous_member_epoch and _is_part(request.owned, member.assigned)
    if epoch < member.member_epoch and missed_our_response:
        return
    size = "greater" if epoch > member.member_epoch else "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_part(owned: Owned, assigned: Partitions) -> bool:
    if owned is None:
        return False
    return all(numbers <= assigned.get(topic_id, NOTHING) for topic_id, numbers in owned.items())


def _updated(member: ConsumerMember, request: HeartbeatRequest) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    given: dict[str, Any] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None if timeout_ms == NOT_GIVEN else timeout_ms,
        "topic_names": request.topic_names,
        "topic_regex": request.topic_regex,
        "assignor": request.assignor,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    return replace(member, **changes, client_id=request.client_id, client_host=request.client_host, classic=None)
