"""The leaders of partitions, for clients that took this broker for the leader (KIP-951).

A lookup serves one response and collects the endpoints of the brokers that the response names.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.protocol.leader_hints import UNKNOWN_LEADER, LeaderIdAndEpoch, NodeEndpoint
from tidelog.server.metadata.image import MetadataImage


class LeaderLookup:
    """The leaders as seen from ``listener``, the client's listener."""

    def __init__(self, image: MetadataImage, listener: str) -> None:
        self._image = image
        self._listener = listener
        self._endpoints: dict[int, NodeEndpoint] = {}

    @property
    def endpoints(self) -> tuple[NodeEndpoint, ...]:
        """The endpoints of the brokers named so far, if they have that listener."""
        return tuple(self._endpoints.values())

    def leader_of(self, topic: str | UUID | None, number: int) -> LeaderIdAndEpoch:
        """Return the leader by topic name or id."""
        topics = self._image.topics if isinstance(topic, str) else self._image.topics_by_id
        found = topics.get(topic)  # type: ignore[arg-type] # names are str keys, ids are UUID keys
        state = None if found is None else found.partitions.get(number)
        if state is None:
            return UNKNOWN_LEADER
        broker = self._image.brokers.get(state.leader)
        endpoint = None if broker is None else broker.listeners.get(self._listener)
        if broker is not None and endpoint is not None:
            self._endpoints[broker.id] = NodeEndpoint(broker.id, endpoint.host, endpoint.port, broker.rack)
        return LeaderIdAndEpoch(state.leader, state.leader_epoch)
