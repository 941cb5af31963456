"""BrokerRegistration, BrokerHeartbeat and ControllerRegistration, which need CLUSTER_ACTION (KIP-631, KIP-858)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from tidelog.protocol.messages import NO_ID
from tidelog.replication.heartbeat import BrokerHeartbeatRequest
from tidelog.replication.registration_request import BrokerEndpoint, BrokerRegistrationRequest, VersionRange
from tidelog.server.authorization.operation import Operation
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import controller as wire
    from tidelog.server.cluster_node import ClusterNode


async def register_broker(
    node: ClusterNode, context: RequestContext, request: wire.BrokerRegistrationRequest
) -> wire.BrokerRegistrationResponse:
    node.authorizer.require(context, Operation.CLUSTER_ACTION)
    epoch = await node.quorum_controller.remote_brokers.register(
        BrokerRegistrationRequest(
            broker_id=request.broker_id,
            cluster_id=request.cluster_id,
            incarnation_id=request.incarnation_id or NO_ID,
            listeners=_endpoints(request.listeners),
            features=_ranges(request.features),
            log_dirs=tuple(request.log_dirs),
            rack=request.rack,
            previous_broker_epoch=request.previous_broker_epoch,
        )
    )
    return {"broker_epoch": epoch}


async def heartbeat(
    node: ClusterNode, context: RequestContext, request: wire.BrokerHeartbeatRequest
) -> wire.BrokerHeartbeatResponse:
    node.authorizer.require(context, Operation.CLUSTER_ACTION)
    cordoned = request.cordoned_log_dirs
    response = await node.quorum_controller.remote_brokers.heartbeat(
        BrokerHeartbeatRequest(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            metadata_offset=request.current_metadata_offset,
            wants_fence=request.want_fence,
            wants_shutdown=request.want_shut_down,
            offline_dirs=frozenset(request.offline_log_dirs),
            cordoned_dirs=None if cordoned is None else frozenset(cordoned),
        )
    )
    return {
        "is_caught_up": response.is_caught_up,
        "is_fenced": response.is_fenced,
        "should_shut_down": response.should_shut_down,
    }


async def register_controller(
    node: ClusterNode, context: RequestContext, request: wire.ControllerRegistrationRequest
) -> wire.ControllerRegistrationResponse:
    node.authorizer.require(context, Operation.CLUSTER_ACTION)
    await node.quorum_controller.remote_brokers.register_controller(
        request.controller_id,
        request.incarnation_id or NO_ID,
        _endpoints(request.listeners),
        _ranges(request.features),
    )
    return {"error_message": None}


class _Listener(Protocol):
    name: str
    host: str
    port: int
    security_protocol: int


class _Feature(Protocol):
    name: str
    min_supported_version: int
    max_supported_version: int


def _endpoints(listeners: Iterable[_Listener]) -> tuple[BrokerEndpoint, ...]:
    return tuple(BrokerEndpoint(one.name, one.host, one.port, one.security_protocol) for one in listeners)


def _ranges(features: Iterable[_Feature]) -> dict[str, VersionRange]:
    return {one.name: VersionRange(one.min_supported_version, one.max_supported_version) for one in features}
