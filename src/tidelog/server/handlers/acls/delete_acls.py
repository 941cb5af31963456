"""DeleteAcls: it removes the ACLs that match filters, and returns each filter's matches (KIP-140)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.messages import read_request
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.handlers.acls.wire_acls import check_filter, entry_fields, filter_of, pattern_fields
from tidelog.server.metadata.requests import Outcome, RemovedAcls
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def read(api: ApiKey, version: int, body: memoryview) -> Struct:
    request = read_request(api, version, body)
    for wanted in request.filters:
        check_filter(wanted)
    return request


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    broker.authorizer.require(context, Operation.ALTER)
    if not broker.authorizer.is_on:
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    removed = await broker.metadata.delete_acls([filter_of(wanted) for wanted in request.filters])
    return {"filter_results": [_result(one) for one in removed]}


def refuse(_context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    """Return the error for every filter."""
    return {"filter_results": [_result(RemovedAcls(Outcome.of(error)))] * len(request.filters)}


def _result(removed: RemovedAcls) -> Mapping[str, Any]:
    return {
        "error_code": removed.outcome.error,
        "error_message": removed.outcome.message,
        "matching_acls": [
            {**pattern_fields(acl.pattern), **entry_fields(acl), "error_message": None} for acl in removed.acls
        ],
    }
