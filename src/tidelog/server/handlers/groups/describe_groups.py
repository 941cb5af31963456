"""DescribeGroups: classic groups with their members, each once and with its own error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.metadata import NOT_REQUESTED
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group
from tidelog.server.executor import yielding_to_loop
from tidelog.server.groups.reports import described_group
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    names = dict.fromkeys(request.groups)
    return {
        "groups": [_with_operations(broker, context, request, group_id) async for group_id in yielding_to_loop(names)]
    }


def _with_operations(broker: Broker, context: RequestContext, request: Struct, group_id: str) -> Mapping[str, Any]:
    described = _described(broker, context, group_id)
    with_operations = request.include_authorized_operations and not described.get("error_code")
    operations = broker.authorizer.operations(context, group(group_id)) if with_operations else NOT_REQUESTED
    return {**described, "authorized_operations": operations}


def _described(broker: Broker, context: RequestContext, group_id: str) -> Mapping[str, Any]:
    try:
        broker.authorizer.require(context, Operation.DESCRIBE, group(group_id))
        return described_group(broker.groups.shard_of(group_id).groups, group_id, context.version)
    except ApiError as error:
        return {"group_id": group_id, "error_code": ErrorCode(error.code)}
