"""CreateAcls: it adds ACLs, each with its own result. Adding an existing ACL is a no-op (KIP-140)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.messages import read_request
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.handlers.acls.wire_acls import acl_of, check_creation
from tidelog.server.metadata.requests import Outcome
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def read(api: ApiKey, version: int, body: memoryview) -> Struct:
    request = read_request(api, version, body)
    for creation in request.creations:
        check_creation(creation)
    return request


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    broker.authorizer.require(context, Operation.ALTER)
    if not broker.authorizer.is_on:
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    outcomes = await broker.metadata.create_acls([acl_of(creation) for creation in request.creations])
    return {"results": [_result(outcome) for outcome in outcomes]}


def refuse(_context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    """Return the error for every ACL."""
    return {"results": [_result(Outcome.of(error))] * len(request.creations)}


def _result(outcome: Outcome) -> Mapping[str, Any]:
    return {"error_code": outcome.error, "error_message": outcome.message or ""}
