"""DeleteGroups: it deletes groups without members, with their offsets. Each group has its own result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    names = dict.fromkeys(request.groups_names)
    allowed = broker.authorizer.allowed(context, Operation.DELETE, group, names)
    results = [
        (name, await _deleted(broker, name) if name in allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for name in names
    ]
    return {"results": [{"group_id": group_id, "error_code": error} for group_id, error in results]}


async def _deleted(broker: Broker, group_id: str) -> ErrorCode:
    try:
        results: Mapping[str, ErrorCode] = await broker.groups.call_shard(
            group_id, lambda shard, reply: shard.delete_groups([group_id], reply)
        )
    except ApiError as error:
        return error.code
    return results[group_id]
