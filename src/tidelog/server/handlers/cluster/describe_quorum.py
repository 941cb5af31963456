"""DescribeQuorum: the metadata quorum's leader and its replicas' progress (KIP-836, KIP-853).

Any partition other than the metadata partition gets UNKNOWN_TOPIC_OR_PARTITION, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.protocol.errors import ErrorCode
from tidelog.server.authorization.operation import Operation
from tidelog.server.metadata.broker_registration import BrokerEndpoint
from tidelog.server.metadata.kraft.quorum import QuorumStatus
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types.cluster import (
        DescribeQuorumRequest,
        DescribeQuorumRequestTopicData,
        DescribeQuorumResponse,
        DescribeQuorumResponsePartitionData,
        DescribeQuorumResponseTopicData,
        Listener,
    )
    from tidelog.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    broker.authorizer.require(context, Operation.DESCRIBE)
    asked = [(topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions]
    if asked != [(CLUSTER_METADATA_TOPIC, 0)]:
        return {"topics": [_unknown(topic) for topic in request.topics]}
    status = broker.metadata.quorum
    return {
        "topics": [{"topic_name": CLUSTER_METADATA_TOPIC, "partitions": [_partition(status, context.received_ms)]}],
        "nodes": [
            {"node_id": voter.id, "listeners": [_listener(endpoint) for endpoint in voter.endpoints]}
            for voter in status.voters
        ],
    }


def _partition(status: QuorumStatus, now_ms: int) -> DescribeQuorumResponsePartitionData:
    return {
        "partition_index": 0,
        "leader_id": status.leader_id,
        "leader_epoch": status.epoch,
        "high_watermark": status.high_watermark,
        "current_voters": [
            {
                "replica_id": voter.id,
                "replica_directory_id": voter.directory_id,
                "log_end_offset": status.high_watermark,
                "last_fetch_timestamp": now_ms,
                "last_caught_up_timestamp": now_ms,
            }
            for voter in status.voters
        ],
    }


def _listener(endpoint: BrokerEndpoint) -> Listener:
    return {"name": endpoint.name, "host": endpoint.host, "port": endpoint.port}


def _unknown(topic: DescribeQuorumRequestTopicData) -> DescribeQuorumResponseTopicData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    parts: list[DescribeQuorumResponsePartitionData] = [
        {"partition_index": part.partition_index, "error_code": code} for part in topic.partitions
    ]
    return {"topic_name": topic.topic_name, "partitions": parts}
