"""CreatePartitions: it adds partitions to topics. Repeated names and unauthorized topics are refused.

Source: Kafka's ``ControllerApis.createPartitions``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tidelog.model import TidelogError
from tidelog.protocol.errors import ErrorCode
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import topic
from tidelog.server.metadata.requests import NewPartitions, Outcome
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import topics as wire
    from tidelog.server.cluster_node import ClusterNode

_FIRST_STRICT = 3
"""Older clients do not know THROTTLING_QUOTA_EXCEEDED: they are throttled instead."""


async def handle(
    node: ClusterNode, context: RequestContext, request: wire.CreatePartitionsRequest
) -> wire.CreatePartitionsResponse:
    times = Counter(asked.name for asked in request.topics)
    once = [name for name, count in times.items() if count == 1]
    allowed = node.authorizer.allowed(context, Operation.ALTER, topic, once)
    wanted = [_new_partitions(asked) for asked in request.topics if times[asked.name] == 1 and asked.name in allowed]
    too_many: list[NewPartitions] = []
    timeout_ms = request.timeout
    if node.quotas.limits_changes(context):
        checked = await node.controller.create_partitions(wanted, validate_only=True, timeout_ms=timeout_ms)
        possible = [new for new, result in zip(wanted, checked, strict=True) if result.error is ErrorCode.NONE]
        too_many = [new for new in possible if not _may_add(node, context, new)]
        wanted = [new for new in wanted if new not in too_many]
    results = await node.controller.create_partitions(
        wanted, validate_only=request.validate_only, timeout_ms=timeout_ms
    )
    return {
        "results": [
            *(
                _result(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                for name, count in times.items()
                if count > 1
            ),
            *(_result(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None) for name in once if name not in allowed),
            *(_result(new.topic, result.error, result.message) for new, result in zip(wanted, results, strict=True)),
            *(_result(new.topic, ErrorCode.THROTTLING_QUOTA_EXCEEDED, None) for new in too_many),
        ]
    }


def refuse(
    context: RequestContext, request: wire.CreatePartitionsRequest, error: TidelogError
) -> wire.CreatePartitionsResponse:
    outcome = Outcome.of(error)
    return {"results": [_result(asked.name, outcome.error, outcome.message) for asked in request.topics]}


def _may_add(node: ClusterNode, context: RequestContext, new: NewPartitions) -> bool:
    count = new.total - len(node.metadata.image.topics[new.topic].partitions)
    return node.quotas.may_change(context, count, is_strict=context.version >= _FIRST_STRICT)


def _new_partitions(asked: wire.CreatePartitionsTopic) -> NewPartitions:
    assignments = asked.assignments
    return NewPartitions(
        topic=asked.name,
        total=asked.count,
        assignments=None if assignments is None else [assignment.broker_ids for assignment in assignments],
    )


def _result(name: str, code: ErrorCode, message: str | None) -> wire.CreatePartitionsTopicResult:
    return {"name": name, "error_code": code, "error_message": message}
