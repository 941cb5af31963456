"""DescribeTopicPartitions: topics sorted by name, page by page (KIP-966).

A page's partitions are limited by the client and by ``max.request.partition.size.limit``. The response's cursor names
the first partition of the next page. A topic that the client may not describe gets an error if the request names it,
and is omitted if the request is for all topics. Source: Kafka's ``DescribeTopicPartitionsRequestHandler``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.model import TidelogError
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.metadata import NOT_REQUESTED
from tidelog.protocol.topic_name import is_legal
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import topic
from tidelog.server.metadata.image import Topic
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.network.request_context import RequestContext
from tidelog.server.topics.partition_view import Viewpoint

if TYPE_CHECKING:
    from tidelog.protocol.message_types import topics as wire
    from tidelog.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: wire.DescribeTopicPartitionsRequest
) -> wire.DescribeTopicPartitionsResponse:
    image = broker.metadata.image
    cursor = request.cursor
    asked = {one.name for one in request.topics}
    names = _from_cursor(asked or image.topics, cursor)
    _check(names, cursor, is_of_all=not asked)
    limit = max(min(broker.config.number("max.request.partition.size.limit"), request.response_partition_limit), 1)
    viewpoint = Viewpoint(image=image, listener=context.listener)
    results: list[wire.DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if not broker.authorizer.allows(context, Operation.DESCRIBE, topic(name)):
            if asked:
                results.append(_refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        if limit == 0:
            return _page(results, name, 0)
        operations = broker.authorizer.operations(context, topic(name))
        found = image.topics.get(name)
        if found is None:
            if asked:
                results.append(_missing(name, operations))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        described = _described(viewpoint, found)[start : start + limit]
        results.append(_topic(found, described, operations))
        if start + limit < len(found.partitions):
            return _page(results, name, start + limit)
        limit -= len(described)
    return {"topics": results, "next_cursor": None}


def refuse(
    context: RequestContext, request: wire.DescribeTopicPartitionsRequest, error: TidelogError
) -> wire.DescribeTopicPartitionsResponse:
    code = error_code_of(error)
    return {"topics": [_refused(one.name, code) for one in request.topics]}


def _from_cursor(names: Iterable[str], cursor: wire.DescribeTopicPartitionsRequestCursor | None) -> list[str]:
    return sorted(name for name in names if cursor is None or name >= cursor.topic_name)


def _check(names: list[str], cursor: wire.DescribeTopicPartitionsRequestCursor | None, *, is_of_all: bool) -> None:
    if cursor is None:
        return
    if not is_of_all and cursor.topic_name not in names:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"wire.DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}",
        )
    if cursor.partition_index < 0:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "wire.DescribeTopicPartitionsRequest cursor partition must be valid: "
            f"Cursor(topicName='{cursor.topic_name}', partitionIndex={cursor.partition_index})",
        )


def _page(
    topics: list[wire.DescribeTopicPartitionsResponseTopic], name: str, partition: int
) -> wire.DescribeTopicPartitionsResponse:
    return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": partition}}


def _described(viewpoint: Viewpoint, topic: Topic) -> list[wire.DescribeTopicPartitionsResponsePartition]:
    return [_partition(viewpoint, number, state) for number, state in sorted(topic.partitions.items())]


def _partition(
    viewpoint: Viewpoint, number: int, state: PartitionState
) -> wire.DescribeTopicPartitionsResponsePartition:
    """Return the partition without an error: a leader id of -1 shows that it has no leader."""
    found = viewpoint.partition(number, state)
    return {
        "partition_index": number,
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "replica_nodes": found.replica_nodes,
        "isr_nodes": found.isr_nodes,
        "offline_replicas": found.offline_replicas,
        "eligible_leader_replicas": state.elr,
        "last_known_elr": state.last_known_elr,
    }


def _topic(
    found: Topic, partitions: list[wire.DescribeTopicPartitionsResponsePartition], operations: int
) -> wire.DescribeTopicPartitionsResponseTopic:
    return {
        "name": found.name,
        "topic_id": found.id,
        "is_internal": found.name in INTERNAL_TOPICS,
        "partitions": partitions,
        "topic_authorized_operations": operations,
    }


def _refused(name: str, code: ErrorCode) -> wire.DescribeTopicPartitionsResponseTopic:
    return {"error_code": code, "name": name, "topic_authorized_operations": NOT_REQUESTED}


def _missing(name: str, operations: int) -> wire.DescribeTopicPartitionsResponseTopic:
    return {
        "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal(name) else ErrorCode.INVALID_TOPIC_EXCEPTION,
        "name": name,
        "is_internal": name in INTERNAL_TOPICS,
        "topic_authorized_operations": operations,
    }
