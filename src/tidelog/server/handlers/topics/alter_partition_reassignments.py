"""AlterPartitionReassignments: other replicas for partitions, or none: the one under way is taken back (KIP-455).

Source: Kafka's ``ReplicationControlManager.alterPartitionReassignments``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer
from tidelog.server.metadata.requests import Reassignment
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Answer:
    wanted = [
        Reassignment(topic.name, partition.partition_index, partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    ]
    outcomes = iter(
        await broker.metadata.alter_reassignments(wanted, may_change_factor=request.allow_replication_factor_change)
    )
    return {
        "allow_replication_factor_change": request.allow_replication_factor_change,
        "error_message": None,
        "responses": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": partition.partition_index,
                        "error_code": outcome.error,
                        "error_message": outcome.message,
                    }
                    for partition, outcome in zip(topic.partitions, outcomes, strict=False)
                ],
            }
            for topic in request.topics
        ],
    }
