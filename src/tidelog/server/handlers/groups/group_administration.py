"""ListGroups, DescribeGroups and DeleteGroups: this broker's groups, for administrators.

ListGroups has the groups that the client may describe, by state (v4+) and type (v5+). DescribeGroups describes classic
groups, each once and with its own error. DeleteGroups deletes groups without members, with their offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.metadata import NOT_REQUESTED
from tidelog.runtime.executor import yielding_to_loop
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, group
from tidelog.server.broker import Broker
from tidelog.server.groups.reports import described_group, listed_groups
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import groups as wire


def list_groups(broker: Broker, context: RequestContext, request: wire.ListGroupsRequest) -> wire.ListGroupsResponse:
    authorizer = broker.authorizer
    sees_all = authorizer.allows(context, Operation.DESCRIBE, CLUSTER, log_denial=False)
    listed = [
        one
        for shard in broker.groups.loaded_shards()
        for one in listed_groups(shard.groups, request.states_filter, request.types_filter)
    ]
    if not sees_all:
        names = (one["group_id"] for one in listed)
        visible = authorizer.allowed(context, Operation.DESCRIBE, group, names, log_denial=False)
        listed = [one for one in listed if one["group_id"] in visible]
    return {"groups": listed}


async def describe_groups(
    broker: Broker, context: RequestContext, request: wire.DescribeGroupsRequest
) -> wire.DescribeGroupsResponse:
    names = dict.fromkeys(request.groups)
    return {
        "groups": [_with_operations(broker, context, request, group_id) async for group_id in yielding_to_loop(names)]
    }


def _with_operations(
    broker: Broker, context: RequestContext, request: wire.DescribeGroupsRequest, group_id: str
) -> wire.DescribeGroupsResponseDescribedGroup:
    described = _described(broker, context, group_id)
    operations = NOT_REQUESTED
    if request.include_authorized_operations and not described.get("error_code"):
        operations = broker.authorizer.operations(context, group(group_id))
    return {**described, "authorized_operations": operations}


def _described(broker: Broker, context: RequestContext, group_id: str) -> wire.DescribeGroupsResponseDescribedGroup:
    try:
        broker.authorizer.require(context, Operation.DESCRIBE, group(group_id))
        return described_group(broker.groups.shard_of(group_id).groups, group_id, context.version)
    except ApiError as error:
        return {"group_id": group_id, "error_code": ErrorCode(error.code)}


async def delete_groups(
    broker: Broker, context: RequestContext, request: wire.DeleteGroupsRequest
) -> wire.DeleteGroupsResponse:
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
