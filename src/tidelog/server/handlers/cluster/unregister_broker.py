"""UnregisterBroker: the cluster forgets a broker (KIP-631). Its replicas leave the in-sync replicas.

A broker that still lives registers again. The broker in the controller's process cannot, so its request is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.server.authorization.operation import Operation
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import cluster as wire
    from tidelog.server.cluster_node import ClusterNode


async def handle(
    node: ClusterNode, context: RequestContext, request: wire.UnregisterBrokerRequest
) -> wire.UnregisterBrokerResponse:
    node.authorizer.require(context, Operation.ALTER)
    await node.quorum_controller.unregister_broker(request.broker_id)
    return {"error_message": None}
