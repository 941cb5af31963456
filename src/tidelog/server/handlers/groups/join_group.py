"""JoinGroup of the classic protocol. The response waits until the rebalance has all members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group, topic
from tidelog.server.groups.classic.classic_member import Protocol
from tidelog.server.groups.classic.joining import JoinRequest
from tidelog.server.groups.routing import check_group_id
from tidelog.server.groups.settings import CoordinatorSettings
from tidelog.server.handlers.groups.client_host import client_host
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_NULLABLE_PROTOCOL = 7
_REQUIRES_MEMBER_ID = 4
_MAY_SKIP_ASSIGNMENT = 9


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    check_group_id(request.group_id)
    _check_session(request.session_timeout, broker.groups.settings)
    visible = partial(broker.authorizer.allowed, context, Operation.DESCRIBE, topic, log_denial=False)
    joining = replace(_join_request(context, request), visible_topics=visible)
    answer: Mapping[str, Any] = await broker.groups.call_shard(
        request.group_id, lambda shard, reply: shard.join(joining, reply)
    )
    return _in_version(context, answer)


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    return _in_version(context, {"error_code": error_code_of(error), "member_id": request.member_id})


def _in_version(context: RequestContext, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    name = answer.get("protocol_name")
    return {**answer, "protocol_name": name or "" if context.version < _NULLABLE_PROTOCOL else name}


def _check_session(timeout_ms: int, settings: CoordinatorSettings) -> None:
    if not settings.min_session_timeout_ms <= timeout_ms <= settings.max_session_timeout_ms:
        raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)


def _join_request(context: RequestContext, request: Struct) -> JoinRequest:
    """Return the request. In version 0 the session timeout is the rebalance timeout too."""
    return JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=client_host(context),
        session_timeout_ms=request.session_timeout,
        rebalance_timeout_ms=request.rebalance_timeout if context.version > 0 else request.session_timeout,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        reason=request.reason or "not provided",
        requires_member_id=context.version >= _REQUIRES_MEMBER_ID,
        may_skip_assignment=context.version >= _MAY_SKIP_ASSIGNMENT,
    )
