"""A cluster whose nodes reach one another through links, so a test can disturb the network between any two of them.

A broker and a controller advertise the address of a link to other nodes. The link finds out which node has connected
(`connection_owner`), and has a `Route` for each. Bytes from node 1 to node 2 are the requests on the route from 1 to 2,
and the responses on the route from 2 to 1. ``CLIENTS`` stands for all clients of ``bootstrap``. No fault affects the
clients of ``direct``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from real_kafka.broker import BrokerError
from real_kafka.cluster import CONTROLLER, Cluster
from real_kafka.cluster_node import Program
from real_kafka.connection_owner import connection_owner
from tidelog.testing.cluster.link import Link
from tidelog.testing.cluster.route import Route, Way

CLIENTS: Final = 0
"""The number of the clients among the nodes."""


class FaultyCluster(Cluster):
    def __init__(
        self,
        root: Path,
        *,
        properties: Mapping[str, str] | None = None,
        controllers: Sequence[int] = (CONTROLLER,),
        programs: Mapping[int, Program] | None = None,
    ) -> None:
        super().__init__(root, properties=properties, controllers=controllers, programs=programs)
        self._links_for_nodes: dict[int, Link] = {}

    def routes(self, sender: int, receiver: int) -> list[tuple[Route, Way]]:
        """Return where the bytes from one node to another one pass. Clients and controllers have no connections."""
        found: list[tuple[Route, Way]] = []
        for client, server, way in ((sender, receiver, Way.REQUESTS), (receiver, sender, Way.RESPONSES)):
            if client == CLIENTS and server in self.links:
                found.append((self.links[server], way))
            elif client != CLIENTS and server != CLIENTS:
                found.append((self._links_for_nodes[server].route(client), way))
        return found

    def heal(self) -> None:
        """End every fault. Half-open connections stay as they are."""
        for link in (*self.links.values(), *self._links_for_nodes.values()):
            link.heal()

    @property
    def numbers(self) -> list[int]:
        """The numbers of all nodes."""
        return [node.number for node in self._nodes()]

    def _address_for_nodes(self, number: int, address: str) -> str:
        port = int(address.rpartition(":")[2])
        link = self._links_for_nodes[number] = self._network.link(port, find_client=self._find_node)
        return link.address

    def _find_node(self, port: int, link_port: int) -> int | None:
        """Return the number of the node that connected from ``port``, or None if it is the harness itself."""
        processes = {}
        for node in self._nodes():
            with suppress(BrokerError):  # the node does not run
                processes[node.number] = node.process_id
        return connection_owner(port, link_port, processes)
