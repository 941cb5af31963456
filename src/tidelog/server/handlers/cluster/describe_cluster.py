"""DescribeCluster: the brokers, one of them as the controller (KIP-700, KIP-919, KIP-1073).

A controller's own listener describes controllers. A request for them at a broker fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.metadata import NOT_REQUESTED
from tidelog.server.authorization.authorizer import Authorizer
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types.cluster import DescribeClusterRequest, DescribeClusterResponse
    from tidelog.server.broker import Broker

_BROKERS, _CONTROLLERS = 1, 2


def handle(broker: Broker, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    _check_endpoint_type(context.version, request.endpoint_type)
    image = broker.metadata.image
    shown = [
        (registration, registration.listeners[context.listener])
        for registration in image.brokers.values()
        if context.listener in registration.listeners and (request.include_fenced_brokers or not registration.is_fenced)
    ]
    alive = [registration.id for registration, _ in shown if not registration.is_fenced]
    return {
        "endpoint_type": _BROKERS,
        "cluster_id": image.cluster_id,
        "controller_id": alive[0] if alive else -1,
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
        "cluster_authorized_operations": _operations(broker.authorizer, context)
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
