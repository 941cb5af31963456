"""AlterPartitionReassignments and ListPartitionReassignments: other replicas for partitions (KIP-455).

An alteration assigns other replicas, or cancels a reassignment. The list omits partitions that do not exist or are not
being reassigned. Source: Kafka's ``ReplicationControlManager``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import TYPE_CHECKING

from tidelog.model import TidelogError
from tidelog.server.authorization.operation import Operation
from tidelog.server.cluster_node import ClusterNode
from tidelog.server.metadata.image import Topic
from tidelog.server.metadata.requests import Outcome, Reassignment
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import topics as wire


async def alter_reassignments(
    node: ClusterNode, context: RequestContext, request: wire.AlterPartitionReassignmentsRequest
) -> wire.AlterPartitionReassignmentsResponse:
    node.authorizer.require(context, Operation.ALTER)
    wanted = [
        Reassignment(topic.name, partition.partition_index, partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    ]
    may_change_factor = request.allow_replication_factor_change
    outcomes = await node.controller.alter_reassignments(
        wanted, may_change_factor=may_change_factor, timeout_ms=request.timeout
    )
    return {
        "allow_replication_factor_change": may_change_factor,
        "error_message": None,
        "responses": _responses(request, outcomes),
    }


def refuse_alter_reassignments(
    _context: RequestContext, request: wire.AlterPartitionReassignmentsRequest, error: TidelogError
) -> wire.AlterPartitionReassignmentsResponse:
    """Return the error for the whole request and for every partition."""
    outcome = Outcome.of(error)
    responses = _responses(request, repeat(outcome))
    return {"error_code": outcome.error, "error_message": outcome.message, "responses": responses}


def _responses(
    request: wire.AlterPartitionReassignmentsRequest, outcomes: Iterable[Outcome]
) -> list[wire.ReassignableTopicResponse]:
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


def list_reassignments(
    node: ClusterNode, context: RequestContext, request: wire.ListPartitionReassignmentsRequest
) -> wire.ListPartitionReassignmentsResponse:
    node.authorizer.require(context, Operation.DESCRIBE)
    topics = node.metadata.image.topics
    wanted: list[tuple[Topic, Iterable[int]]]
    if request.topics is None:
        wanted = [(topic, topic.partitions) for topic in topics.values()]
    else:
        asked = [topic for topic in request.topics if topic.name in topics]
        wanted = [(topics[topic.name], topic.partition_indexes) for topic in asked]
    ongoing = [(topic.name, _ongoing(topic, numbers)) for topic, numbers in wanted]
    listed = [(name, partitions) for name, partitions in ongoing if partitions]
    return {"error_message": None, "topics": [{"name": name, "partitions": partitions} for name, partitions in listed]}


def _ongoing(topic: Topic, numbers: Iterable[int]) -> list[wire.OngoingPartitionReassignment]:
    states = {number: topic.partitions[number] for number in sorted(numbers) if number in topic.partitions}
    return [
        {
            "partition_index": number,
            "replicas": state.replicas,
            "adding_replicas": state.adding,
            "removing_replicas": state.removing,
        }
        for number, state in states.items()
        if state.is_reassigning
    ]
