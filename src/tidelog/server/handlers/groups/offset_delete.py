"""OffsetDelete: it deletes committed offsets of topics that the group does not read (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group, topic
from tidelog.server.groups.routing import check_group_id
from tidelog.server.handlers.groups.topic_parts import (
    Results,
    answered_topics,
    denied_partitions,
    partitions_of,
    unknown_partitions,
)
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    broker.authorizer.require(context, Operation.DELETE, group(request.group_id))
    check_group_id(request.group_id)
    names = (asked.name for asked in request.topics)
    allowed = broker.authorizer.allowed(context, Operation.READ, topic, names)
    refused = unknown_partitions(request.topics, broker.groups.topics) | denied_partitions(request.topics, allowed)
    there = [partition for partition in partitions_of(request.topics) if partition not in refused]
    deleted: Results = await broker.groups.call_shard(
        request.group_id, lambda shard, reply: shard.commits.delete(request.group_id, there, reply)
    )
    return {"topics": answered_topics(request.topics, {**refused, **deleted})}
