"""ConsumerGroupDescribe (KIP-848): consumer groups with members, epochs and assignments, or an error.

A group is not described if its members have a topic that the client may not describe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.metadata import NOT_REQUESTED
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group, topic
from tidelog.server.executor import yielding_to_loop
from tidelog.server.groups.reports import described_consumer_group
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_HIDDEN_TOPICS = ApiError(
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "The group has described topic(s) that the client is not authorized to describe.",
)


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    once = dict.fromkeys(request.group_ids)
    described = [_described(broker, context, group_id) async for group_id in yielding_to_loop(once)]
    names = {name for one in described for name in _topics_of(one)}
    shown = broker.authorizer.allowed(context, Operation.DESCRIBE, topic, names)
    return {
        "groups": [
            _with_operations(broker, context, request, one)
            if shown.issuperset(_topics_of(one))
            else _refused(one["group_id"], _HIDDEN_TOPICS)
            async for one in yielding_to_loop(described)
        ]
    }


def _described(broker: Broker, context: RequestContext, group_id: str) -> Mapping[str, Any]:
    groups = broker.groups
    try:
        groups.require_consumer_protocol()
        broker.authorizer.require(context, Operation.DESCRIBE, group(group_id))
        return described_consumer_group(groups.shard_of(group_id).groups, group_id, groups.assignors[0], groups.topics)
    except ApiError as error:
        return _refused(group_id, error)


def _refused(group_id: str, error: ApiError) -> Mapping[str, Any]:
    """Return the error of a group. As in Kafka, GROUP_AUTHORIZATION_FAILED has no message."""
    message = None if error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED else error.message
    return {"group_id": group_id, "error_code": error.code, "error_message": message}


def _topics_of(described: Mapping[str, Any]) -> Iterator[str]:
    for member in described.get("members", ()):
        for assignment in (member["assignment"], member["target_assignment"]):
            for part in assignment["topic_partitions"]:
                yield part["topic_name"]


def _with_operations(
    broker: Broker, context: RequestContext, request: Struct, described: Mapping[str, Any]
) -> Mapping[str, Any]:
    with_operations = request.include_authorized_operations and not described.get("error_code")
    operations = (
        broker.authorizer.operations(context, group(described["group_id"])) if with_operations else NOT_REQUESTED
    )
    return {**described, "authorized_operations": operations}
