"""OffsetCommit: offsets of partitions that exist are committed; answered when they are replicated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import error_code_of
from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer
from tidelog.server.groups.classic.syncing import MemberClaim
from tidelog.server.groups.offsets.commit_rules import CommitClaim
from tidelog.server.handlers.groups.topic_parts import (
    Results,
    answered_topics,
    offsets_to_commit,
    refused_topics,
    unknown_partitions,
)
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_DEFAULT_RETENTION = -1


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Answer:
    results: Results = unknown_partitions(request.topics, broker.groups.topics)
    offsets = offsets_to_commit(request.topics, results)
    if offsets or not request.topics:
        claim, retention_ms = _claim(context, request), request.retention_time
        committed: Results = await broker.groups.ask(
            request.group_id,
            lambda shard, reply: shard.commits.commit(
                claim, offsets, reply, retention_ms=None if retention_ms == _DEFAULT_RETENTION else retention_ms
            ),
        )
        results = {**results, **committed}
    return {"topics": answered_topics(request.topics, results)}


def refuse(_context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    return {"topics": refused_topics(request.topics, error_code_of(error))}


def _claim(context: RequestContext, request: Struct) -> CommitClaim:
    member = MemberClaim(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation_id=request.generation_id_or_member_epoch,
    )
    return CommitClaim(member=member, version=context.version)
