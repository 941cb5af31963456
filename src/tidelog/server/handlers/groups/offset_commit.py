"""OffsetCommit: it commits offsets of existing partitions, and responds once they are replicated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, error_code_of
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group, topic
from tidelog.server.groups.journal import Topics
from tidelog.server.groups.offsets.commit_rules import CommitClaim
from tidelog.server.groups.offsets.commits import OffsetToCommit
from tidelog.server.handlers.groups.member_claim import claim_of
from tidelog.server.handlers.groups.topic_parts import (
    Part,
    Results,
    answered_topics,
    denied_partitions,
    identified_parts,
    offsets_to_commit,
    partitions_of,
    unknown_partitions,
)
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_DEFAULT_RETENTION = -1
_TOPIC_IDS = 10
"""The first version with topic ids instead of names."""


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    broker.authorizer.require(context, Operation.READ, group(request.group_id))
    parts = _parts(context, request, broker.groups.topics)
    allowed = broker.authorizer.allowed(context, Operation.READ, topic, (asked.name for asked in parts))
    refused = unknown_partitions(parts, broker.groups.topics) | denied_partitions(parts, allowed)
    offsets = offsets_to_commit(parts, refused)
    committed = await _committed(broker, context, request, offsets) if offsets or not parts else {}
    return {"topics": answered_topics(parts, {**refused, **committed})}


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    """Return the error for every partition."""
    parts = _parts(context, request, None)
    return {"topics": answered_topics(parts, dict.fromkeys(partitions_of(parts), error_code_of(error)))}


def _parts(context: RequestContext, request: Struct, topics: Topics | None) -> Sequence[Part]:
    return identified_parts(request.topics, topics) if context.version >= _TOPIC_IDS else request.topics


async def _committed(
    broker: Broker, context: RequestContext, request: Struct, offsets: list[OffsetToCommit]
) -> Results:
    claim, retention_ms = _claim(context, request), request.retention_time
    try:
        results: Results = await broker.groups.call_shard(
            request.group_id,
            lambda shard, reply: shard.commits.commit(
                claim, offsets, reply, retention_ms=None if retention_ms == _DEFAULT_RETENTION else retention_ms
            ),
        )
    except ApiError as error:
        return dict.fromkeys((offset.partition for offset in offsets), error.code)
    return results


def _claim(context: RequestContext, request: Struct) -> CommitClaim:
    return CommitClaim(member=claim_of(request, request.generation_id_or_member_epoch), version=context.version)
