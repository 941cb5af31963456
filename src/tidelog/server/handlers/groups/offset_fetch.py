"""OffsetFetch: the committed offsets of one group, or several (v8+), for the named partitions or all.

Topics have names before v10, and ids from v10 on (KIP-848).

============================  ======================================================================================
a partition                   result
============================  ======================================================================================
without an offset             offset -1 without an error
with an offset of a deleted   the same: the id belongs to the topic that has the name now
topic of that name (v10+)
with a pending offset         UNSTABLE_OFFSET_COMMIT, if the client requires stable offsets (v7+, KIP-447)
of a group with an error      that error (v1); later versions have a field for it outside the topics
of a topic that the client    TOPIC_AUTHORIZATION_FAILED; omitted if the request is for all partitions
may not describe
of an unknown topic id        UNKNOWN_TOPIC_ID; omitted if the request is for all partitions
============================  ======================================================================================
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.runtime.executor import yielding_to_loop
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import group, topic
from tidelog.server.groups.offsets.commit_rules import check_fetch
from tidelog.server.groups.shard import Shard
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import groups as wire
    from tidelog.server.broker import Broker

_SEVERAL_GROUPS = 8
_MEMBERS = 9
"""The first version that identifies the member of a consumer group."""
_TOPIC_IDS = 10
_GROUP_ERRORS = 2
_NO_OFFSET: Final[wire.OffsetFetchResponsePartitions] = {
    "committed_offset": -1,
    "committed_leader_epoch": -1,
    "metadata": "",
}


class _Part(NamedTuple):
    """The requested partitions of one topic."""

    name: str
    """The name, or empty if no topic has the id."""
    partitions: Sequence[int]
    topic_id: uuid.UUID | None = None
    """The topic's id from v10 on."""


class _Group(NamedTuple):
    """A group in a request."""

    group_id: str
    parts: list[_Part] | None
    """The requested partitions, or None for all."""
    member_id: str | None = None
    member_epoch: int = -1


async def handle(broker: Broker, context: RequestContext, request: wire.OffsetFetchRequest) -> wire.OffsetFetchResponse:
    if context.version >= _SEVERAL_GROUPS:
        once = {
            one.group_id: _Group(one.group_id, _by_name_or_id(one.topics), one.member_id, one.member_epoch)
            for one in request.groups
        }
        return {"groups": [_group(broker, context, request, asked) async for asked in yielding_to_loop(once.values())]}
    found = _group(broker, context, request, _Group(request.group_id, _by_name(request.topics)))
    return {"topics": found["topics"], "error_code": found.get("error_code", ErrorCode.NONE)}


def refuse(
    _context: RequestContext, _request: wire.OffsetFetchRequest, error: TidelogError
) -> wire.OffsetFetchResponse:
    return {"error_code": error_code_of(error)}


def _group(
    broker: Broker, context: RequestContext, request: wire.OffsetFetchRequest, asked: _Group
) -> wire.OffsetFetchResponseGroup:
    try:
        broker.authorizer.require(context, Operation.DESCRIBE, group(asked.group_id))
        shard = broker.groups.shard_of(asked.group_id)
        shard.context.journal.flush()  # append pending commits first: until then a crash may lose them
        _check(shard, context, asked)
    except ApiError as error:
        if context.version < _GROUP_ERRORS:
            return {"topics": [_refused(part, error.code) for part in asked.parts or ()]}
        return {"group_id": asked.group_id, "error_code": error.code, "topics": []}
    parts = _parts_of(broker, context, shard, asked)
    shown = broker.authorizer.allowed(context, Operation.DESCRIBE, topic, (part.name for part in parts if part.name))
    topics = [_read_topic(shard, asked, part, request.require_stable) for part in parts if part.name in shown]
    hidden = [] if asked.parts is None else [part for part in parts if part.name not in shown]
    return {"group_id": asked.group_id, "topics": topics + [_refused(part, _why_hidden(part)) for part in hidden]}


def _why_hidden(part: _Part) -> ErrorCode:
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED if part.name else ErrorCode.UNKNOWN_TOPIC_ID


def _check(shard: Shard, context: RequestContext, asked: _Group) -> None:
    """Raise ApiError if the member may not fetch. An unknown group has no offsets, and that is no error."""
    found = shard.groups.get(asked.group_id)
    if found is not None:
        has_member = context.version >= _MEMBERS
        check_fetch(found, asked.member_id if has_member else None, asked.member_epoch if has_member else -1)


def _parts_of(broker: Broker, context: RequestContext, shard: Shard, asked: _Group) -> list[_Part]:
    topics = broker.groups.topics
    by_ids = context.version >= _TOPIC_IDS
    if asked.parts is None:
        parts = _all_of(shard, asked.group_id)
        facts = ((part, topics.by_name(part.name)) for part in parts)
        return [part._replace(topic_id=found.id) for part, found in facts if found is not None] if by_ids else parts
    if not by_ids:
        return asked.parts
    ids = ((part, None if part.topic_id is None else topics.by_id(part.topic_id)) for part in asked.parts)
    return [part._replace(name="" if topic is None else topic.name) for part, topic in ids]


def _by_name(topics: Sequence[wire.OffsetFetchRequestTopic] | None) -> list[_Part] | None:
    return None if topics is None else [_Part(one.name, one.partition_indexes) for one in topics]


def _by_name_or_id(topics: Sequence[wire.OffsetFetchRequestTopics] | None) -> list[_Part] | None:
    return None if topics is None else [_Part(one.name, one.partition_indexes, one.topic_id) for one in topics]


def _all_of(shard: Shard, group_id: str) -> list[_Part]:
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(shard.offsets.of_group(group_id)):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    return [_Part(name, numbers) for name, numbers in by_topic.items()]


def _read_topic(shard: Shard, asked: _Group, part: _Part, require_stable: bool) -> wire.OffsetFetchResponseTopics:
    return {
        **_key(part),
        "partitions": [_partition(shard, asked.group_id, part, one, require_stable) for one in part.partitions],
    }


def _key(part: _Part) -> wire.OffsetFetchResponseTopics:
    return {"name": part.name} if part.topic_id is None else {"topic_id": part.topic_id}


def _partition(
    shard: Shard, group_id: str, part: _Part, number: int, require_stable: bool
) -> wire.OffsetFetchResponsePartitions:
    partition = TopicPartition(part.name, number)
    no_offset: wire.OffsetFetchResponsePartitions = {**_NO_OFFSET, "partition_index": number}
    if require_stable and shard.offsets.has_pending(group_id, partition):
        return {**no_offset, "error_code": ErrorCode.UNSTABLE_OFFSET_COMMIT}
    committed = shard.offsets.of_group(group_id).get(partition)
    if committed is None or (part.topic_id is not None and committed.topic_id not in (None, part.topic_id)):
        return no_offset
    return {
        "partition_index": number,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
    }


def _refused(part: _Part, error: ErrorCode) -> wire.OffsetFetchResponseTopics:
    return {
        **_key(part),
        "partitions": [{**_NO_OFFSET, "partition_index": one, "error_code": error} for one in part.partitions],
    }
