"""SyncGroup: a member requests its assignment, and the group's leader brings all assignments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group
from tidelog.server.groups.classic.syncing import SyncRequest
from tidelog.server.groups.routing import check_group_id
from tidelog.server.handlers.groups.member_claim import claim_of
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


_SAYS_PROTOCOL = 5


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
    if context.version >= _SAYS_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    check_group_id(request.group_id)
    claim = claim_of(request, request.generation_id)
    syncing = SyncRequest(
        claim=claim,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={one.member_id: bytes(one.assignment) for one in request.assignments},
    )
    answer: Mapping[str, Any] = await broker.groups.call_shard(
        request.group_id, lambda shard, reply: shard.sync(syncing, reply)
    )
    return answer
