"""DescribeCluster and DescribeQuorum at a controller's listener, for administrators who bootstrap there (KIP-919)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.metadata import NOT_REQUESTED
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER
from tidelog.server.handlers.cluster import descriptions
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import cluster as wire
    from tidelog.server.cluster_node import ClusterNode

_CONTROLLERS = 2


def describe_cluster(
    node: ClusterNode, context: RequestContext, request: wire.DescribeClusterRequest
) -> wire.DescribeClusterResponse:
    node.authorizer.require(context, Operation.ALTER)
    if request.endpoint_type != _CONTROLLERS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST if context.version == 0 else ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER",
        )
    image = node.metadata.image
    operations = node.authorizer.operations(context, CLUSTER)
    return {
        "endpoint_type": _CONTROLLERS,
        "cluster_id": image.cluster_id,
        "controller_id": image.controller_id,
        "brokers": list(_controllers(image.controllers, context.listener)),
        "cluster_authorized_operations": operations if request.include_cluster_authorized_operations else NOT_REQUESTED,
    }


def describe_quorum(
    node: ClusterNode, context: RequestContext, request: wire.DescribeQuorumRequest
) -> wire.DescribeQuorumResponse:
    """Return the broker's response. Here it is exempt from the request quota, as in ``handleRaftRequest``."""
    response = descriptions.describe_quorum(node, context, request)
    context.client.is_exempt = True
    return response


def _controllers(controllers: Mapping[int, Mapping[str, Any]], listener: str) -> Iterator[wire.DescribeClusterBroker]:
    """Yield the controllers that have the listener."""
    for controller_id, fields in controllers.items():
        for endpoint in fields["endPoints"]:
            if endpoint["name"].upper() == listener:
                yield {
                    "broker_id": controller_id,
                    "host": endpoint["host"],
                    "port": endpoint["port"],
                    "rack": None,
                    "is_fenced": False,
                }
