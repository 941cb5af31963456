"""DescribeCluster and DescribeQuorum: the brokers, and the metadata quorum.

One of the brokers is named as the controller (KIP-700). A controller's own listener describes controllers; a request
for them at a broker fails (KIP-919, KIP-1073). DescribeQuorum has the leader and the replicas' progress (KIP-836,
KIP-853). Any partition other than the metadata partition gets UNKNOWN_TOPIC_OR_PARTITION, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.metadata import NOT_REQUESTED
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.server.authorization.authorizer import Authorizer
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER
from tidelog.server.metadata.kraft.quorum import QuorumStatus
from tidelog.server.network.request_context import RequestContext
from tidelog.server.topics.partition_view import Viewpoint

if TYPE_CHECKING:
    from tidelog.protocol.message_types import cluster as wire
    from tidelog.server.cluster_node import ClusterNode

_BROKERS, _CONTROLLERS = 1, 2


def describe_cluster(
    node: ClusterNode, context: RequestContext, request: wire.DescribeClusterRequest
) -> wire.DescribeClusterResponse:
    _check_endpoint_type(context.version, request.endpoint_type)
    image = node.metadata.image
    shown = [
        (registration, registration.listeners[context.listener])
        for registration in image.brokers.values()
        if context.listener in registration.listeners and (request.include_fenced_brokers or not registration.is_fenced)
    ]
    return {
        "endpoint_type": _BROKERS,
        "cluster_id": image.cluster_id,
        "controller_id": Viewpoint(image=image, listener=context.listener).any_node(),
        "brokers": [
            {
                "broker_id": registration.id,
                "host": endpoint.host,
                "port": endpoint.port,
                "rack": registration.rack,
                "is_fenced": registration.is_fenced,
            }
            for registration, endpoint in shown
        ],
        "cluster_authorized_operations": _operations(node.authorizer, context)
        if request.include_cluster_authorized_operations
        else NOT_REQUESTED,
    }


def _operations(authorizer: Authorizer, context: RequestContext) -> int:
    """Return the operations that the client may do on the cluster; none if it may not describe it."""
    return authorizer.operations(context, CLUSTER) if authorizer.allows(context, Operation.DESCRIBE, CLUSTER) else 0


def _check_endpoint_type(version: int, endpoint_type: int) -> None:
    if endpoint_type == _BROKERS:
        return
    if endpoint_type != _CONTROLLERS:
        code, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}"
    else:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    raise ApiError(ErrorCode.INVALID_REQUEST if version == 0 else code, message)


def describe_quorum(
    node: ClusterNode, context: RequestContext, request: wire.DescribeQuorumRequest
) -> wire.DescribeQuorumResponse:
    node.authorizer.require(context, Operation.DESCRIBE)
    asked = [(topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions]
    if asked != [(CLUSTER_METADATA_TOPIC, 0)]:
        return {"topics": [_unknown(topic) for topic in request.topics]}
    status = node.quorum_controller.quorum
    return {
        "topics": [{"topic_name": CLUSTER_METADATA_TOPIC, "partitions": [_partition(status, context.received_ms)]}],
        "nodes": [
            {"node_id": voter.id, "listeners": [_listener(endpoint) for endpoint in voter.endpoints]}
            for voter in status.voters
        ],
    }


def _partition(status: QuorumStatus, now_ms: int) -> wire.DescribeQuorumResponsePartitionData:
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
        "observers": [
            {
                "replica_id": key.node_id,
                "replica_directory_id": key.directory_id,
                "log_end_offset": observer.end_offset,
                "last_fetch_timestamp": observer.fetched_at_ms,
                "last_caught_up_timestamp": observer.caught_up_at_ms,
            }
            for key, observer in sorted(status.observers.items())
        ],
    }


def _listener(endpoint: BrokerEndpoint) -> wire.Listener:
    return {"name": endpoint.name, "host": endpoint.host, "port": endpoint.port}


def _unknown(topic: wire.DescribeQuorumRequestTopicData) -> wire.DescribeQuorumResponseTopicData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    parts: list[wire.DescribeQuorumResponsePartitionData] = [
        {"partition_index": part.partition_index, "error_code": code} for part in topic.partitions
    ]
    return {"topic_name": topic.topic_name, "partitions": parts}
