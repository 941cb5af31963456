"""ListPartitionReassignments: the ongoing reassignments of all or named partitions (KIP-455).

Partitions that do not exist or are not being reassigned are omitted. Source: Kafka's ``ReplicationControlManager``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.metadata.image import Topic
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    broker.authorizer.require(context, Operation.DESCRIBE)
    topics = broker.metadata.image.topics
    if request.topics is None:
        wanted = [(topic, topic.partitions) for topic in topics.values()]
    else:
        asked = [topic for topic in request.topics if topic.name in topics]
        wanted = [(topics[topic.name], topic.partition_indexes) for topic in asked]
    listed = [{"name": topic.name, "partitions": _under_way(topic, numbers)} for topic, numbers in wanted]
    return {"error_message": None, "topics": [topic for topic in listed if topic["partitions"]]}


def _under_way(topic: Topic, numbers: Iterable[int]) -> list[dict[str, Any]]:
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
