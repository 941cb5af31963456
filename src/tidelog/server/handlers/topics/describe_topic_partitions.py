"""DescribeTopicPartitions: topics sorted by name, page by page (KIP-966).

A page's partitions are limited by the client and by ``max.request.partition.size.limit``. The response's cursor names
the first partition of the next page. A topic that the client may not describe gets an error if the request names it,
and is omitted if the request is for all topics. Source: Kafka's ``DescribeTopicPartitionsRequestHandler``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.metadata import NOT_REQUESTED
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import topic
from tidelog.server.metadata.image import Topic
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response
from tidelog.server.topic_name import is_internal, is_legal
from tidelog.server.topics.partition_view import Viewpoint

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    image = broker.metadata.image
    cursor = request.cursor
    asked = {one.name for one in request.topics}
    names = _from_cursor(asked or image.topics, cursor)
    _check(names, cursor, is_of_all=not asked)
    limit = max(min(broker.config.number("max.request.partition.size.limit"), request.response_partition_limit), 1)
    viewpoint = Viewpoint(image=image, listener=context.listener)
    answered: list[Mapping[str, Any]] = []
    for name in names:
        if not broker.authorizer.allows(context, Operation.DESCRIBE, topic(name)):
            if asked:
                answered.append(_refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        if limit == 0:
            return _page(answered, name, 0)
        operations = broker.authorizer.operations(context, topic(name))
        found = image.topics.get(name)
        if found is None:
            if asked:
                answered.append(_missing(name, operations))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        described = _described(viewpoint, found)[start : start + limit]
        answered.append(_topic(found, described, operations))
        if start + limit < len(found.partitions):
            return _page(answered, name, start + limit)
        limit -= len(described)
    return {"topics": answered, "next_cursor": None}


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    code = error_code_of(error)
    return {"topics": [_refused(one.name, code) for one in request.topics]}


def _from_cursor(names: Iterable[str], cursor: Struct | None) -> list[str]:
    return sorted(name for name in names if cursor is None or name >= cursor.topic_name)


def _check(names: list[str], cursor: Struct | None, *, is_of_all: bool) -> None:
    if cursor is None:
        return
    if not is_of_all and cursor.topic_name not in names:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}",
        )
    if cursor.partition_index < 0:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "DescribeTopicPartitionsRequest cursor partition must be valid: "
            f"Cursor(topicName='{cursor.topic_name}', partitionIndex={cursor.partition_index})",
        )


def _page(topics: list[Mapping[str, Any]], name: str, partition: int) -> Mapping[str, Any]:
    return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": partition}}


def _described(viewpoint: Viewpoint, topic: Topic) -> list[dict[str, Any]]:
    """Return the partitions without errors: a leader id of -1 shows that a partition has no leader."""
    return [
        viewpoint.partition(number, state)
        | {
            "error_code": ErrorCode.NONE,
            "eligible_leader_replicas": state.elr,
            "last_known_elr": state.last_known_elr,
        }
        for number, state in sorted(topic.partitions.items())
    ]


def _topic(found: Topic, partitions: list[dict[str, Any]], operations: int) -> Mapping[str, Any]:
    return {
        "name": found.name,
        "topic_id": found.id,
        "is_internal": is_internal(found.name),
        "partitions": partitions,
        "topic_authorized_operations": operations,
    }


def _refused(name: str, code: ErrorCode) -> Mapping[str, Any]:
    return {"error_code": code, "name": name, "topic_authorized_operations": NOT_REQUESTED}


def _missing(name: str, operations: int) -> Mapping[str, Any]:
    return {
        "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal(name) else ErrorCode.INVALID_TOPIC_EXCEPTION,
        "name": name,
        "is_internal": is_internal(name),
        "topic_authorized_operations": operations,
    }
