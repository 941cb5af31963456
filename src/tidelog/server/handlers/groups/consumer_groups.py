"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: the consumer protocol (KIP-848).

The heartbeat is the only request that its members need. A description has members, epochs and assignments, or an error.
A group is not described if its members have a topic that the client may not describe.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.metadata import NOT_REQUESTED
from tidelog.runtime.executor import yielding_to_loop
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group, topic
from tidelog.server.broker import Broker
from tidelog.server.groups.consumer.heartbeats import HeartbeatRequest, check_request
from tidelog.server.groups.reports import described_consumer_group
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import groups as wire

_HIDDEN_TOPICS = ApiError(
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    "The group has described topic(s) that the client is not authorized to describe.",
)


# --- ConsumerGroupHeartbeat ---


async def heartbeat(
    broker: Broker, context: RequestContext, request: wire.ConsumerGroupHeartbeatRequest
) -> wire.ConsumerGroupHeartbeatResponse:
    broker.groups.require_consumer_protocol()
    authorizer = broker.authorizer
    if not authorizer.allows(context, Operation.READ, group(request.group_id)):
        return {"error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    names = set(request.subscribed_topic_names or ())
    if len(authorizer.allowed(context, Operation.DESCRIBE, topic, names)) < len(names):
        return {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    visible = partial(authorizer.allowed, context, Operation.DESCRIBE, topic, log_denial=False)
    heartbeat = replace(_heartbeat(context, request), visible_topics=visible)
    check_request(heartbeat, context.version, broker.groups.assignors)
    response: Any = await broker.groups.call_shard(
        request.group_id, lambda shard, reply: shard.consumer.heartbeat(heartbeat, reply)
    )
    return response  # type: ignore[no-any-return] # the groups' replies are mappings


def _heartbeat(context: RequestContext, request: wire.ConsumerGroupHeartbeatRequest) -> HeartbeatRequest:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout,
        topic_names=None if names is None else frozenset(names),
        topic_regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if owned is None else {part.topic_id: frozenset(part.partitions) for part in owned},  # type: ignore[misc] # no topic has None
        client_id=context.client_id or "",
        client_host=context.client_address,
    )


# --- ConsumerGroupDescribe ---


async def describe(
    broker: Broker, context: RequestContext, request: wire.ConsumerGroupDescribeRequest
) -> wire.ConsumerGroupDescribeResponse:
    once = dict.fromkeys(request.group_ids)
    described = [_described(broker, context, group_id) async for group_id in yielding_to_loop(once)]
    names = {name for one in described for name in _topics_of(one)}
    visible = broker.authorizer.allowed(context, Operation.DESCRIBE, topic, names)
    return {
        "groups": [
            _with_operations(broker, context, request, one)
            if visible.issuperset(_topics_of(one))
            else _refused(one["group_id"], _HIDDEN_TOPICS)
            async for one in yielding_to_loop(described)
        ]
    }


def _described(
    broker: Broker, context: RequestContext, group_id: str
) -> wire.ConsumerGroupDescribeResponseDescribedGroup:
    groups = broker.groups
    try:
        groups.require_consumer_protocol()
        broker.authorizer.require(context, Operation.DESCRIBE, group(group_id))
        return described_consumer_group(groups.shard_of(group_id).groups, group_id, groups.assignors[0], groups.topics)
    except ApiError as error:
        return _refused(group_id, error)


def _refused(group_id: str, error: ApiError) -> wire.ConsumerGroupDescribeResponseDescribedGroup:
    """Return the error of a group. As in Kafka, GROUP_AUTHORIZATION_FAILED has no message."""
    message = None if error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED else error.message
    return {"group_id": group_id, "error_code": error.code, "error_message": message}


def _topics_of(described: wire.ConsumerGroupDescribeResponseDescribedGroup) -> Iterator[str]:
    for member in described.get("members", ()):
        for assignment in (member["assignment"], member["target_assignment"]):
            for part in assignment["topic_partitions"]:
                yield part["topic_name"]


def _with_operations(
    broker: Broker,
    context: RequestContext,
    request: wire.ConsumerGroupDescribeRequest,
    described: wire.ConsumerGroupDescribeResponseDescribedGroup,
) -> wire.ConsumerGroupDescribeResponseDescribedGroup:
    operations = NOT_REQUESTED
    if request.include_authorized_operations and not described.get("error_code"):
        operations = broker.authorizer.operations(context, group(described["group_id"]))
    return {**described, "authorized_operations": operations}
