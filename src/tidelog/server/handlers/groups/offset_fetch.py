"""OffsetFetch: committed offsets of a group, or of several (v8+): of the partitions asked for, or of all.

Topics have names before v10 and ids from there on (KIP-848).

============================  ======================================================================================
a partition                   gets
============================  ======================================================================================
without an offset             offset -1 and no error
with one for a topic that     the same: the client means the topic that has the name now
was deleted (v10+)
with a pending one            UNSTABLE_OFFSET_COMMIT, if the client asks for stable ones (v7+, KIP-447)
of a group with an error      that error (v1); later versions have a place for it beside the topics
of a topic that the client    TOPIC_AUTHORIZATION_FAILED; where all are asked for, nothing
may not see
of an id that no topic has    UNKNOWN_TOPIC_ID; where all are asked for, nothing
============================  ======================================================================================
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group, topic
from tidelog.server.groups.offsets.commit_rules import check_fetch
from tidelog.server.groups.shard import Shard
from tidelog.server.request_context import RequestContext
from tidelog.server.work import in_pieces

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_SEVERAL_GROUPS = 8
_MEMBERS = 9
"""From here on a member of a consumer group says who it is."""
_TOPIC_IDS = 10
_GROUP_ERRORS = 2
_NO_OFFSET = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}


class _Part(NamedTuple):
    """What is asked about one topic."""

    name: str
    """Empty where no topic has the id."""
    partitions: Sequence[int]
    topic_id: uuid.UUID | None = None
    """From v10 on."""


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Answer:
    if context.version >= _SEVERAL_GROUPS:
        once = {asked.group_id: asked for asked in request.groups}
        return {"groups": [_of_group(broker, context, request, asked) async for asked in in_pieces(once.values())]}
    return _of_group(broker, context, request, request)


def refuse(_context: RequestContext, _request: Struct, error: TidelogError) -> Mapping[str, Any]:
    return {"error_code": error_code_of(error)}


def _of_group(broker: Broker, context: RequestContext, request: Struct, asked: Struct) -> dict[str, Any]:
    """``asked``: the part of the request about one group; before v8 the request itself."""
    head = {"group_id": asked.group_id} if context.version >= _SEVERAL_GROUPS else {}
    try:
        broker.authorizer.require(context, Operation.DESCRIBE, group(asked.group_id))
        shard = broker.groups.shard_of(asked.group_id)
        shard.context.journal.flush()
        _check(shard, context, asked)
    except ApiError as error:
        if context.version < _GROUP_ERRORS:
            return {"topics": [_refused(part, error.code) for part in _named(asked.topics)]}
        return {**head, "error_code": error.code, "topics": []}
    parts = _parts(broker, context, shard, asked)
    shown = broker.authorizer.allowed(context, Operation.DESCRIBE, topic, (part.name for part in parts if part.name))
    topics = [_answered(shard, asked, part, request.require_stable) for part in parts if part.name in shown]
    hidden = [] if asked.topics is None else [part for part in parts if part.name not in shown]
    return {**head, "topics": topics + [_refused(part, _why_hidden(part)) for part in hidden]}


def _why_hidden(part: _Part) -> ErrorCode:
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED if part.name else ErrorCode.UNKNOWN_TOPIC_ID


def _check(shard: Shard, context: RequestContext, asked: Struct) -> None:
    """A group that is not there has no offsets, which is no error."""
    found = shard.groups.get(asked.group_id)
    if found is not None:
        says_who = context.version >= _MEMBERS
        check_fetch(found, asked.member_id if says_who else None, asked.member_epoch if says_who else -1)


def _parts(broker: Broker, context: RequestContext, shard: Shard, asked: Struct) -> list[_Part]:
    topics = broker.groups.topics
    by_ids = context.version >= _TOPIC_IDS
    if asked.topics is None:
        parts = _all_of(shard, asked.group_id)
        facts = ((part, topics.by_name(part.name)) for part in parts)
        return [part._replace(topic_id=found.id) for part, found in facts if found is not None] if by_ids else parts
    if not by_ids:
        return _named(asked.topics)
    found = ((part, topics.by_id(part.topic_id)) for part in asked.topics)
    return [_Part("" if topic is None else topic.name, part.partition_indexes, part.topic_id) for part, topic in found]


def _named(parts: Iterable[Struct]) -> list[_Part]:
    return [_Part(part.name, part.partition_indexes) for part in parts]


def _all_of(shard: Shard, group_id: str) -> list[_Part]:
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(shard.offsets.of_group(group_id)):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    return [_Part(name, numbers) for name, numbers in by_topic.items()]


def _answered(shard: Shard, asked: Struct, part: _Part, require_stable: bool) -> dict[str, Any]:
    return {
        **_key(part),
        "partitions": [_of_partition(shard, asked.group_id, part, one, require_stable) for one in part.partitions],
    }


def _key(part: _Part) -> dict[str, Any]:
    return {"name": part.name} if part.topic_id is None else {"topic_id": part.topic_id}


def _of_partition(shard: Shard, group_id: str, part: _Part, number: int, require_stable: bool) -> dict[str, Any]:
    partition = TopicPartition(part.name, number)
    answer = {"partition_index": number, **_NO_OFFSET}
    if require_stable and shard.offsets.has_pending(group_id, partition):
        return {**answer, "error_code": ErrorCode.UNSTABLE_OFFSET_COMMIT}
    committed = shard.offsets.of_group(group_id).get(partition)
    if committed is None or (part.topic_id is not None and committed.topic_id not in (None, part.topic_id)):
        return answer
    return {
        **answer,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
    }


def _refused(part: _Part, error: ErrorCode) -> dict[str, Any]:
    return {
        **_key(part),
        "partitions": [{"partition_index": one, **_NO_OFFSET, "error_code": error} for one in part.partitions],
    }
