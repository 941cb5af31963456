"""OffsetFetch: committed offsets of a group, or of several (v8+): of the partitions asked for, or of all.

============================  ======================================================================================
a partition                   gets
============================  ======================================================================================
without an offset             offset -1 and no error
with a pending one            UNSTABLE_OFFSET_COMMIT, if the client asks for stable ones (v7+, KIP-447)
of a group with an error      that error (v1); later versions have a place for it beside the topics
of a topic that the client    TOPIC_AUTHORIZATION_FAILED; where all are asked for, nothing
may not see
============================  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

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
_GROUP_ERRORS = 2
_NO_OFFSET = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}


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
            return {"topics": _refused(asked.topics, error.code)}
        return {**head, "error_code": error.code, "topics": []}
    wanted = _all_of(shard, asked.group_id) if asked.topics is None else _named(asked.topics)
    names = (name for name, _partitions in wanted)
    shown = broker.authorizer.allowed(context, Operation.DESCRIBE, topic, names)
    hidden = [part for part in asked.topics or () if part.name not in shown]
    topics = [
        {
            "name": name,
            "partitions": [_of_partition(shard, asked.group_id, one, request.require_stable) for one in partitions],
        }
        for name, partitions in wanted
        if name in shown
    ]
    return {**head, "topics": topics + _refused(hidden, ErrorCode.TOPIC_AUTHORIZATION_FAILED)}


def _check(shard: Shard, context: RequestContext, asked: Struct) -> None:
    """A group that is not there has no offsets, which is no error."""
    found = shard.groups.get(asked.group_id)
    if found is not None:
        says_who = context.version >= _MEMBERS
        check_fetch(found, asked.member_id if says_who else None, asked.member_epoch if says_who else -1)


def _named(parts: Iterable[Struct]) -> list[tuple[str, list[TopicPartition]]]:
    return [(part.name, [TopicPartition(part.name, number) for number in part.partition_indexes]) for part in parts]


def _all_of(shard: Shard, group_id: str) -> list[tuple[str, list[TopicPartition]]]:
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in sorted(shard.offsets.of_group(group_id)):
        by_topic.setdefault(partition.topic, []).append(partition)
    return list(by_topic.items())


def _of_partition(shard: Shard, group_id: str, partition: TopicPartition, require_stable: bool) -> dict[str, Any]:
    answer = {"partition_index": partition.partition, **_NO_OFFSET}
    if require_stable and shard.offsets.has_pending(group_id, partition):
        return {**answer, "error_code": ErrorCode.UNSTABLE_OFFSET_COMMIT}
    committed = shard.offsets.of_group(group_id).get(partition)
    if committed is None:
        return answer
    return {
        **answer,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
    }


def _refused(parts: Iterable[Struct], error: ErrorCode) -> list[dict[str, Any]]:
    return [
        {
            "name": part.name,
            "partitions": [
                {"partition_index": number, **_NO_OFFSET, "error_code": error} for number in part.partition_indexes
            ],
        }
        for part in parts
    ]
