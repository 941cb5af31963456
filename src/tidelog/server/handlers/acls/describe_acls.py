"""DescribeAcls: the ACLs that match a filter, grouped by resource pattern (KIP-140, KIP-290)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.messages import read_request
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.acl import Acl, Pattern
from tidelog.server.authorization.operation import Operation
from tidelog.server.handlers.acls.wire_acls import check_filter, entry_fields, filter_of, pattern_fields
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def read(api: ApiKey, version: int, body: memoryview) -> Struct:
    request = read_request(api, version, body)
    check_filter(request)
    return request


def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    broker.authorizer.require(context, Operation.DESCRIBE)
    if not broker.authorizer.is_on:
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    found: dict[Pattern, list[Acl]] = defaultdict(list)
    for acl in broker.authorizer.acls(filter_of(request)):
        found[acl.pattern].append(acl)
    return {
        "resources": [
            {**pattern_fields(pattern), "acls": [entry_fields(acl) for acl in acls]} for pattern, acls in found.items()
        ]
    }
