"""The network between the nodes of a cluster: one link for each node and each other node that it connects to.

A broker connects to the other brokers and to the controller. The controller connects to no node. Clients connect to the
brokers themselves, so no fault here affects them. Thread rule: any thread except the loop's, unless a method says else.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.client import Address
from tidelog.testing.broker.kept_port import HOST
from tidelog.testing.broker.loop_thread import LoopThread
from tidelog.testing.cluster.link import Link, Network


class NodeNetwork:
    def __init__(self, thread: LoopThread) -> None:
        self._network = Network(thread)
        self._links: dict[tuple[int, int], Link] = {}
        self._disconnected: set[tuple[int, int]] = set()

    def connect(self, source: int, target: int, port: int) -> None:
        """Open the link from a node to the node ``target``, which listens at ``port``."""
        self._links[source, target] = self._network.link(port)

    def close(self) -> None:
        """Close all links. Call this once."""
        self._network.close()

    def route(self, source: int, address: Address) -> Address:
        """Return the address by which a node reaches the node at ``address``; any thread."""
        links = (link for (node_id, _), link in self._links.items() if node_id == source)
        return next((Address(HOST, link.port) for link in links if link.target == address.port), address)

    def reaches(self, source: int, target: int) -> bool:
        """Return False while two nodes are disconnected."""
        return (source, target) not in self._disconnected

    # --- faults ---

    def disconnect(self, one: int, others: Iterable[int], *, is_one_way: bool, is_silent: bool) -> None:
        """Disconnect a node from others. See ``Cluster.disconnect``."""
        for pair, link in self._between(one, others, is_one_way=is_one_way):
            self._disconnected.add(pair)
            if is_silent:
                link.freeze()
            else:
                link.disconnect()

    def delay(self, one: int, others: Iterable[int], ms: int) -> None:
        """Deliver every byte between a node and others later."""
        for _pair, link in self._between(one, others):
            link.delay(ms / 1000)

    def heal(self, one: int, others: Iterable[int]) -> None:
        """End the faults between a node and others."""
        for pair, link in self._between(one, others):
            self._disconnected.discard(pair)
            link.heal()

    def _between(
        self, one: int, others: Iterable[int], *, is_one_way: bool = False
    ) -> list[tuple[tuple[int, int], Link]]:
        pairs = [(one, other) for other in others]
        if not is_one_way:
            pairs += [(other, one) for _, other in list(pairs)]
        return [(pair, self._links[pair]) for pair in pairs if pair in self._links]
