"""OffsetDelete: committed offsets of topics that the group does not read go (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer
from tidelog.server.groups.routing import check_group_id
from tidelog.server.handlers.groups.topic_parts import Results, answered_topics, partitions_of, unknown_partitions
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, _context: RequestContext, request: Struct) -> Answer:
    check_group_id(request.group_id)
    unknown = unknown_partitions(request.topics, broker.groups.topics)
    there = [partition for partition in partitions_of(request.topics) if partition not in unknown]
    deleted: Results = await broker.groups.ask(
        request.group_id, lambda shard, reply: shard.commits.delete(request.group_id, there, reply)
    )
    return {"topics": answered_topics(request.topics, {**unknown, **deleted})}
