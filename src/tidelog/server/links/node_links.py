"""Connections to nodes, one for each key, opened by its first use.

A key's connection is replaced if its node has moved to another address. A ``Route`` may lead to a node by another
address than its own, which tests use for faults. Thread rule: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tidelog.client.cluster.node_link import NodeLink
from tidelog.client.connection.client_settings import ClientSettings
from tidelog.client.model.address import Address
from tidelog.client.model.errors import ClientClosedError, DisconnectedError

Route = Callable[[Address], Address]
"""Returns the address to connect to for a node's address."""


def direct(address: Address) -> Address:
    """Return the node's own address."""
    return address


class NodeLinks:
    def __init__(self, settings: ClientSettings, nodes: str, route: Route = direct) -> None:
        """Create the links without a connection. ``settings`` has the security; its bootstrap servers are not used.
        ``nodes`` names the nodes in errors."""
        self._settings = settings
        self._nodes = nodes
        self._route = route
        self._links: dict[Hashable, NodeLink] = {}
        self._is_closed = False

    def require_open(self) -> None:
        """Raise ClientClosedError after ``close``."""
        if self._is_closed:
            raise ClientClosedError(f"this node is stopping: its connections to {self._nodes} are closed")

    def link(self, key: Hashable, address: Address, node_id: int | None) -> NodeLink:
        """Return the key's link to a node at its address. Raise ClientClosedError after ``close``."""
        self.require_open()
        address = self._route(address)
        link = self._links.get(key)
        if link is None or link.address != address:
            if link is not None:
                link.close(DisconnectedError(f"broker {node_id} has moved from {link.address} to {address}"))
            link = self._links[key] = NodeLink(address, self._settings, node_id)
        return link

    def change(self, settings: ClientSettings) -> None:
        """Use other settings for the connections that are opened from now on."""
        self._settings = settings
        for link in self._links.values():
            link.change(settings)

    def close(self) -> None:
        """Close all connections. Pending requests raise ClientClosedError. Idempotent."""
        self._is_closed = True
        for link in self._links.values():
            link.close()
