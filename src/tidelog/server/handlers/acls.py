"""The APIs of access control lists: CreateAcls, DescribeAcls and DeleteAcls (KIP-140, KIP-290).

Each ACL and each filter of a request has its own result. Adding an existing ACL is a no-op. A number that Kafka does
not know becomes UNKNOWN. The number of UNKNOWN itself makes a request malformed. Source: Kafka's requests of these
names.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tidelog.model import TidelogError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode, MalformedMessageError
from tidelog.protocol.messages import read_request
from tidelog.server.authorization.acl import Acl, AclFilter, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.cluster_node import ClusterNode
from tidelog.server.metadata.requests import Outcome, RemovedAcls
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import acls as wire


# --- CreateAcls ---


def read_create_acls(api: ApiKey, version: int, body: memoryview) -> wire.CreateAclsRequest:
    request: wire.CreateAclsRequest = read_request(api, version, body)
    for one in request.creations:
        _require_known(one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)
    return request


async def create_acls(
    node: ClusterNode, context: RequestContext, request: wire.CreateAclsRequest
) -> wire.CreateAclsResponse:
    node.authorizer.require(context, Operation.ALTER)
    _require_authorizer(node, "No Authorizer is configured.")
    outcomes = await node.controller.create_acls([_acl(creation) for creation in request.creations])
    return {"results": [_creation_result(outcome) for outcome in outcomes]}


def refuse_create_acls(
    _context: RequestContext, request: wire.CreateAclsRequest, error: TidelogError
) -> wire.CreateAclsResponse:
    """Return the error for every ACL."""
    return {"results": [_creation_result(Outcome.of(error))] * len(request.creations)}


def _creation_result(outcome: Outcome) -> wire.AclCreationResult:
    return {"error_code": outcome.error, "error_message": outcome.message or ""}


def _acl(creation: wire.AclCreation) -> Acl:
    pattern_type = PatternType.of(creation.resource_pattern_type)
    return Acl(
        Pattern(AclResourceType.of(creation.resource_type), creation.resource_name, pattern_type),
        creation.principal,
        creation.host,
        Operation.of(creation.operation),
        Permission.of(creation.permission_type),
    )


# --- DescribeAcls ---


def read_describe_acls(api: ApiKey, version: int, body: memoryview) -> wire.DescribeAclsRequest:
    request: wire.DescribeAclsRequest = read_request(api, version, body)
    _check_filter(request)
    return request


def describe_acls(
    node: ClusterNode, context: RequestContext, request: wire.DescribeAclsRequest
) -> wire.DescribeAclsResponse:
    node.authorizer.require(context, Operation.DESCRIBE)
    _require_authorizer(node, "No Authorizer is configured on the broker")
    found: dict[Pattern, list[Acl]] = defaultdict(list)
    for acl in node.authorizer.acls(_filter(request)):
        found[acl.pattern].append(acl)
    return {
        "resources": [
            {
                "resource_type": pattern.resource_type,
                "resource_name": pattern.name,
                "pattern_type": pattern.type,
                "acls": [_description(acl) for acl in acls],
            }
            for pattern, acls in found.items()
        ]
    }


def _description(acl: Acl) -> wire.AclDescription:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


# --- DeleteAcls ---


def read_delete_acls(api: ApiKey, version: int, body: memoryview) -> wire.DeleteAclsRequest:
    request: wire.DeleteAclsRequest = read_request(api, version, body)
    for one in request.filters:
        _check_filter(one)
    return request


async def delete_acls(
    node: ClusterNode, context: RequestContext, request: wire.DeleteAclsRequest
) -> wire.DeleteAclsResponse:
    node.authorizer.require(context, Operation.ALTER)
    _require_authorizer(node, "No Authorizer is configured.")
    removed = await node.controller.delete_acls([_filter(one) for one in request.filters])
    return {"filter_results": [_filter_result(one) for one in removed]}


def refuse_delete_acls(
    _context: RequestContext, request: wire.DeleteAclsRequest, error: TidelogError
) -> wire.DeleteAclsResponse:
    """Return the error for every filter."""
    return {"filter_results": [_filter_result(RemovedAcls(Outcome.of(error)))] * len(request.filters)}


def _filter_result(removed: RemovedAcls) -> wire.DeleteAclsFilterResult:
    return {
        "error_code": removed.outcome.error,
        "error_message": removed.outcome.message,
        "matching_acls": [_matching_acl(acl) for acl in removed.acls],
    }


def _matching_acl(acl: Acl) -> wire.DeleteAclsMatchingAcl:
    return {
        "resource_type": acl.pattern.resource_type,
        "resource_name": acl.pattern.name,
        "pattern_type": acl.pattern.type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
        "error_message": None,
    }


# --- filters and checks ---


def _check_filter(one: wire.DescribeAclsRequest | wire.DeleteAclsFilter) -> None:
    _require_known(one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)


def _filter(one: wire.DescribeAclsRequest | wire.DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        resource_type=AclResourceType.of(one.resource_type_filter),
        name=one.resource_name_filter,
        pattern_type=PatternType.of(one.pattern_type_filter),
        principal=one.principal_filter,
        host=one.host_filter,
        operation=Operation.of(one.operation),
        permission=Permission.of(one.permission_type),
    )


def _require_known(*numbers: int) -> None:
    """Raise MalformedMessageError if an element is UNKNOWN."""
    if 0 in numbers:
        raise MalformedMessageError("an ACL or a filter has an element with the value UNKNOWN")


def _require_authorizer(node: ClusterNode, message: str) -> None:
    if not node.authorizer.is_on:
        raise ApiError(ErrorCode.SECURITY_DISABLED, message)
