"""Heartbeat of the classic protocol. It succeeds while the coordinator still loads the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group
from tidelog.server.groups.routing import check_group_id
from tidelog.server.handlers.groups.member_claim import claim_of
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    check_group_id(request.group_id)
    claim = claim_of(request, request.generation_id)
    try:
        return {"error_code": broker.groups.shard_of(request.group_id).heartbeat(claim)}
    except ApiError as error:
        if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return {"error_code": ErrorCode.NONE}
