"""AlterPartition, AssignReplicasToDirs and AllocateProducerIds: changes that brokers report or need.

They need CLUSTER_ACTION and the current epoch of the broker (KIP-497, KIP-858, KIP-730, KIP-903).
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import NO_ID
from tidelog.server.authorization.operation import Operation
from tidelog.server.metadata.partition_state import RECOVERED, RECOVERING
from tidelog.server.metadata.requests import AlteredPartition, PartitionAlteration
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import controller as wire
    from tidelog.server.cluster_node import ClusterNode


async def alter_partition(
    node: ClusterNode, context: RequestContext, request: wire.AlterPartitionRequest
) -> wire.AlterPartitionResponse:
    alterations = [_alteration(topic.topic_id, part) for topic in request.topics for part in topic.partitions]
    altered = await node.quorum_controller.remote_brokers.alter_partitions(
        request.broker_id, request.broker_epoch, alterations
    )
    results = iter(altered)
    return {
        "topics": [
            {
                "topic_id": topic.topic_id,
                "partitions": [_altered(part.partition_index, next(results)) for part in topic.partitions],
            }
            for topic in request.topics
        ]
    }


def _alteration(topic_id: uuid.UUID | None, part: wire.AlterPartitionRequestPartitionData) -> PartitionAlteration:
    """Return the alteration. Versions before 3 have no broker epochs of the in-sync replicas."""
    members = part.new_isr_with_epochs
    return PartitionAlteration(
        topic_id=topic_id or NO_ID,
        partition=part.partition_index,
        isr=[member.broker_id for member in members] if members else list(part.new_isr or ()),
        leader_epoch=part.leader_epoch,
        partition_epoch=part.partition_epoch,
        is_recovering=part.leader_recovery_state == RECOVERING,
        broker_epochs=[member.broker_epoch for member in members or ()],
    )


def _altered(partition: int, altered: AlteredPartition) -> wire.AlterPartitionResponsePartitionData:
    state = altered.state
    if state is None:
        return {"partition_index": partition, "error_code": altered.outcome.error}
    return {
        "partition_index": partition,
        "leader_id": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
        "leader_recovery_state": RECOVERING if state.is_recovering else RECOVERED,
        "partition_epoch": state.partition_epoch,
    }


async def assign_replicas_to_dirs(
    node: ClusterNode, context: RequestContext, request: wire.AssignReplicasToDirsRequest
) -> wire.AssignReplicasToDirsResponse:
    node.authorizer.require(context, Operation.CLUSTER_ACTION)
    wanted = {
        (topic.topic_id or NO_ID, part.partition_index): directory.id_ or NO_ID
        for directory in request.directories
        for topic in directory.topics
        for part in topic.partitions
    }
    codes = await node.quorum_controller.remote_brokers.assign_directories(
        request.broker_id, request.broker_epoch, wanted
    )
    return {"directories": [_assigned(directory, codes) for directory in request.directories]}


def _assigned(
    directory: wire.AssignReplicasToDirsRequestDirectoryData, codes: dict[tuple[uuid.UUID, int], ErrorCode]
) -> wire.AssignReplicasToDirsResponseDirectoryData:
    return {
        "id_": directory.id_,
        "topics": [
            {
                "topic_id": topic.topic_id,
                "partitions": [
                    {
                        "partition_index": part.partition_index,
                        "error_code": codes[topic.topic_id or NO_ID, part.partition_index],
                    }
                    for part in topic.partitions
                ],
            }
            for topic in directory.topics
        ],
    }


async def allocate_producer_ids(
    node: ClusterNode, context: RequestContext, request: wire.AllocateProducerIdsRequest
) -> wire.AllocateProducerIdsResponse:
    node.authorizer.require(context, Operation.CLUSTER_ACTION)
    block = await node.quorum_controller.remote_brokers.allocate_producer_ids(request.broker_id, request.broker_epoch)
    return {"producer_id_start": block.start, "producer_id_len": len(block)}
