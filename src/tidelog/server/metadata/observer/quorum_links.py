"""Connections to the controllers: one for each address and purpose, opened by its first request.

Each purpose has a connection of its own, so that a Fetch that waits does not delay a heartbeat.
Thread rule: the event loop only. Source: Kafka's ``KafkaNetworkChannel``, ``NodeToControllerChannelManagerImpl``.
"""

from __future__ import annotations

from typing import Any

from tidelog.client.connection.client_settings import ClientSettings
from tidelog.client.connection.connection import Decoder, Values
from tidelog.client.model.address import Address
from tidelog.protocol.api_key import ApiKey
from tidelog.replication.observer_messages import QuorumNode
from tidelog.server.links.node_links import NodeLinks, Route, direct


class QuorumLinks:
    def __init__(self, settings: ClientSettings, route: Route = direct) -> None:
        """Create the links without a connection. ``settings`` has the security; its bootstrap servers are not used."""
        self._links = NodeLinks(settings, "the controllers", route)

    async def send(
        self,
        node: QuorumNode,
        api: ApiKey,
        values: Values,
        *,
        purpose: str,
        timeout_ms: int,
        decode: Decoder | None = None,
    ) -> Any:
        """Send a request and return its response. Raise ClientError as ``Connection.send`` does."""
        address, node_id = Address(node.host, node.port), node.id if node.id >= 0 else None
        connection = await self._links.link((address, purpose), address, node_id).connection()
        return await connection.send(api, values, timeout_ms=timeout_ms, decode=decode)

    def change(self, settings: ClientSettings) -> None:
        """Use other settings for the connections that are opened from now on."""
        self._links.change(settings)

    def close(self) -> None:
        """Close all connections. Pending requests raise ClientClosedError. Idempotent."""
        self._links.close()
