"""Connections to the other brokers of the cluster, by the listener between brokers.

A connection is opened by its first request. A broker that registers again at another address gets a new one. A failure
is the caller's: fetchers, transaction markers and verifications each have their own rules for it.
Thread rule: the event loop only. Source: Kafka's ``BrokerBlockingSender``, ``InterBrokerSendThread``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.client.cluster.node_link import NodeLink
from tidelog.client.connection.client_settings import ClientSettings
from tidelog.client.connection.connection import Connection, Decoder, Request
from tidelog.client.model.address import Address
from tidelog.client.model.errors import DisconnectedError
from tidelog.protocol.api_key import ApiKey
from tidelog.server.links.node_links import NodeLinks, Route, direct

AddressOf = Callable[[int], Address | None]
"""Returns a broker's address on the listener between brokers, or None if it is not registered or lacks it."""


class BrokerLinks:
    def __init__(self, address_of: AddressOf, settings: ClientSettings, route: Route = direct) -> None:
        """Create the links without a connection. ``settings`` has the security; its bootstrap servers are not used."""
        self.address_of = address_of
        self._links = NodeLinks(settings, "other brokers", route)

    async def send(
        self,
        node_id: int,
        api: ApiKey,
        values: Request,
        *,
        purpose: str = "",
        version: int | None = None,
        at_least: int | None = None,
        timeout_ms: int | None = None,
        decode: Decoder | None = None,
    ) -> Any:
        """Send a request to a broker, as ``Connection.send`` does, or ``send_version`` with a ``version``. ``at_least``
        is the lowest version of ``Connection.send``.

        ``purpose`` is a name of the caller's: each has a connection of its own, so that a Fetch that waits does not
        delay other requests. Raise ClientError as ``connection`` and the two methods do.
        """
        connection = await self.connection(node_id, purpose)
        if version is None:
            return await connection.send(api, values, at_least=at_least, timeout_ms=timeout_ms, decode=decode)
        return await connection.send_version(api, version, values, timeout_ms=timeout_ms, decode=decode)

    async def connection(self, node_id: int, purpose: str = "") -> Connection:
        """Return the open connection to a broker for a purpose. Raise DisconnectedError if the broker has no address,
        ClientClosedError after ``close``, and the errors of ``open_connection``."""
        return await self._link(node_id, purpose).connection()

    def change(self, settings: ClientSettings) -> None:
        """Use other settings for the connections that are opened from now on."""
        self._links.change(settings)

    def close(self) -> None:
        """Close all connections. Pending requests raise ClientClosedError. Idempotent."""
        self._links.close()

    def _link(self, node_id: int, purpose: str) -> NodeLink:
        self._links.require_open()
        address = self.address_of(node_id)
        if address is None:
            raise DisconnectedError(f"broker {node_id} is not registered with a listener for other brokers")
        return self._links.link((node_id, purpose), address, node_id)
