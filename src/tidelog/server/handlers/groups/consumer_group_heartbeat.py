"""ConsumerGroupHeartbeat: the only request that members of the consumer protocol need (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group, topic
from tidelog.server.groups.consumer.heartbeats import HeartbeatRequest, check_request
from tidelog.server.handlers.groups.client_host import client_host
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Mapping[str, Any]:
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
    answer: Mapping[str, Any] = await broker.groups.call_shard(
        request.group_id, lambda shard, reply: shard.consumer.heartbeat(heartbeat, reply)
    )
    return answer


def _heartbeat(context: RequestContext, request: Struct) -> HeartbeatRequest:
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
        owned=None if owned is None else {part.topic_id: frozenset(part.partitions) for part in owned},
        client_id=context.client_id or "",
        client_host=client_host(context),
    )
