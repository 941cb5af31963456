"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the requests of members of the classic protocol.

The response to a join waits until the rebalance has all members, and that to a sync until the group's leader has
brought the assignments. A heartbeat succeeds while the coordinator still loads the group. LeaveGroup removes one member
(v0 to v2) or several, each with its own result.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group, topic
from tidelog.server.broker import Broker
from tidelog.server.groups.classic.joining import JoinRequest
from tidelog.server.groups.classic.member_requests import Leaver, MemberClaim, SyncRequest
from tidelog.server.groups.state.classic_member import Protocol
from tidelog.server.groups.state.settings import CoordinatorSettings
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import groups as wire

_JOIN_NULLABLE_PROTOCOL = 7
_JOIN_REQUIRES_MEMBER_ID = 4
_JOIN_MAY_SKIP_ASSIGNMENT = 9
_SYNC_HAS_PROTOCOL = 5
_LEAVE_SEVERAL_MEMBERS = 3


def claim_of(
    request: wire.SyncGroupRequest | wire.HeartbeatRequest | wire.OffsetCommitRequest | wire.TxnOffsetCommitRequest,
    generation_id: int,
) -> MemberClaim:
    """Return the claim. The caller passes ``generation_id``, because the field's name differs between requests."""
    return MemberClaim(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation_id=generation_id,
    )


def check_group_id(group_id: str) -> None:
    """Raise ApiError(INVALID_GROUP_ID) if the id is empty. An empty group id is valid only for offset commits."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)


# --- JoinGroup ---


async def join_group(broker: Broker, context: RequestContext, request: wire.JoinGroupRequest) -> wire.JoinGroupResponse:
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    check_group_id(request.group_id)
    _check_session(request.session_timeout, broker.groups.settings)
    visible = partial(broker.authorizer.allowed, context, Operation.DESCRIBE, topic, log_denial=False)
    joining = replace(_join_request(context, request), visible_topics=visible)
    response: Any = await broker.groups.call_shard(request.group_id, lambda shard, reply: shard.join(joining, reply))
    return _in_version(context, response)


def refuse_join_group(
    context: RequestContext, request: wire.JoinGroupRequest, error: TidelogError
) -> wire.JoinGroupResponse:
    return _in_version(context, {"error_code": error_code_of(error), "member_id": request.member_id})


def _in_version(context: RequestContext, response: wire.JoinGroupResponse) -> wire.JoinGroupResponse:
    name = response.get("protocol_name")
    return {**response, "protocol_name": name or "" if context.version < _JOIN_NULLABLE_PROTOCOL else name}


def _check_session(timeout_ms: int, settings: CoordinatorSettings) -> None:
    if not settings.min_session_timeout_ms <= timeout_ms <= settings.max_session_timeout_ms:
        raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)


def _join_request(context: RequestContext, request: wire.JoinGroupRequest) -> JoinRequest:
    """Return the request. In version 0 the session timeout is the rebalance timeout too."""
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=context.client_address,
        session_timeout_ms=request.session_timeout,
        rebalance_timeout_ms=request.rebalance_timeout if context.version > 0 else request.session_timeout,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        reason=request.reason or "not provided",
        requires_member_id=context.version >= _JOIN_REQUIRES_MEMBER_ID,
        may_skip_assignment=context.version >= _JOIN_MAY_SKIP_ASSIGNMENT,
    )


# --- SyncGroup ---


async def sync_group(broker: Broker, context: RequestContext, request: wire.SyncGroupRequest) -> wire.SyncGroupResponse:
    if context.version >= _SYNC_HAS_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    check_group_id(request.group_id)
    syncing = SyncRequest(
        claim=claim_of(request, request.generation_id),
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={one.member_id: bytes(one.assignment) for one in request.assignments},
    )
    response: Any = await broker.groups.call_shard(request.group_id, lambda shard, reply: shard.sync(syncing, reply))
    return response  # type: ignore[no-any-return] # the groups' replies are mappings


# --- Heartbeat ---


def heartbeat(broker: Broker, context: RequestContext, request: wire.HeartbeatRequest) -> wire.HeartbeatResponse:
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    check_group_id(request.group_id)
    claim = claim_of(request, request.generation_id)
    try:
        return {"error_code": broker.groups.shard_of(request.group_id).heartbeat(claim)}
    except ApiError as error:
        if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return {"error_code": ErrorCode.NONE}


# --- LeaveGroup ---


async def leave_group(
    broker: Broker, context: RequestContext, request: wire.LeaveGroupRequest
) -> wire.LeaveGroupResponse:
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    check_group_id(request.group_id)
    if context.version < _LEAVE_SEVERAL_MEMBERS:
        leavers = [Leaver(request.member_id)]
    else:
        leavers = [Leaver(one.member_id, one.group_instance_id, one.reason) for one in request.members]
    results: list[ErrorCode] = await broker.groups.call_shard(
        request.group_id, lambda shard, reply: shard.leave(request.group_id, leavers, reply)
    )
    if context.version < _LEAVE_SEVERAL_MEMBERS:
        return {"error_code": results[0]}
    return {
        "members": [
            {"member_id": leaver.member_id, "group_instance_id": leaver.instance_id, "error_code": result}
            for leaver, result in zip(leavers, results, strict=True)
        ]
    }
