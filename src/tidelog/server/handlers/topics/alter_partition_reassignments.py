"""AlterPartitionReassignments: it assigns other replicas, or cancels a reassignment (KIP-455).

Source: Kafka's ``ReplicationControlManager.alterPartitionReassignments``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.metadata.requests import Outcome, Reassignment
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    broker.authorizer.require(context, Operation.ALTER)
    wanted = [
        Reassignment(topic.name, partition.partition_index, partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    ]
    may_change_factor = request.allow_replication_factor_change
    outcomes = await broker.metadata.alter_reassignments(
        wanted, may_change_factor=may_change_factor, timeout_ms=request.timeout
    )
    return {
        "allow_replication_factor_change": may_change_factor,
        "error_message": None,
        "responses": _responses(request, outcomes),
    }


def refuse(_context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    """Return the error for the whole request and for every partition."""
    outcome = Outcome.of(error)
    responses = _responses(request, repeat(outcome))
    return {"error_code": outcome.error, "error_message": outcome.message, "responses": responses}


def _responses(request: Struct, outcomes: Iterable[Outcome]) -> list[Mapping[str, Any]]:
    """Return the response's topics, with one outcome per partition in request order."""
    left = iter(outcomes)
    return [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": partition.partition_index,
                    "error_code": outcome.error,
                    "error_message": outcome.message,
                }
                for partition, outcome in zip(topic.partitions, left, strict=False)
            ],
        }
        for topic in request.topics
    ]
