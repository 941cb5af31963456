"""LeaveGroup: it removes one member (v0 to v2) or several, each with its own result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group
from tidelog.server.groups.classic.leaving import Leaver
from tidelog.server.groups.routing import check_group_id
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_SEVERAL_MEMBERS = 3


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    check_group_id(request.group_id)
    if context.version < _SEVERAL_MEMBERS:
        leavers = [Leaver(request.member_id)]
    else:
        leavers = [Leaver(one.member_id, one.group_instance_id, one.reason) for one in request.members]
    results: list[ErrorCode] = await broker.groups.call_shard(
        request.group_id, lambda shard, reply: shard.leave(request.group_id, leavers, reply)
    )
    if context.version < _SEVERAL_MEMBERS:
        return {"error_code": results[0]}
    return {
        "members": [
            {"member_id": leaver.member_id, "group_instance_id": leaver.instance_id, "error_code": result}
            for leaver, result in zip(leavers, results, strict=True)
        ]
    }
