"""A partition as a client of one listener sees it. Pure.

===================================  =================================================================================
leader                               its id and epoch; LEADER_NOT_AVAILABLE if there is none or it is not registered,
                                     LISTENER_NOT_FOUND (Metadata v6 and later) if it lacks the listener
replicas, in-sync replicas           all of them; Metadata v0 leaves out brokers that are not registered or lack the
                                     listener, and then returns REPLICA_NOT_AVAILABLE
offline replicas                     the replicas on brokers that are fenced, not registered, without the listener, or
                                     whose log directory is offline
===================================  =================================================================================

Source: Kafka's ``KRaftMetadataCache``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.metadata import MetadataResponsePartition
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.server.metadata.broker_registration import BrokerRegistration
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.partition_state import PartitionState

_NO_LEADER = -1
_NO_NODE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewpoint:
    """The view of the clients of ``listener``, limited to facts that their protocol version can carry."""

    image: MetadataImage
    listener: str
    leaves_out_the_dead: bool = False
    """True for Metadata v0."""
    names_listeners: bool = True
    """True for Metadata v6 and later: a missing listener has an error code of its own."""

    def endpoint(self, broker_id: int) -> BrokerEndpoint | None:
        """Return the broker's endpoint, or None if it is not registered or lacks the listener."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.listeners.get(self.listener)

    def nodes(self) -> list[tuple[BrokerRegistration, BrokerEndpoint]]:
        """Return the brokers that clients can connect to, sorted by id: not fenced, and with the listener."""
        brokers = sorted(self.image.brokers.values(), key=lambda broker: broker.id)
        return [
            (broker, broker.listeners[self.listener])
            for broker in brokers
            if not broker.is_fenced and self.listener in broker.listeners
        ]

    def any_node(self) -> int:
        """Return the id of a random broker, or -1. Clients take it for the controller (KIP-631). Each broker forwards
        their requests to the controller, so a random one spreads them."""
        nodes = self.nodes()
        return random.choice(nodes)[0].id if nodes else _NO_NODE

    def partition(self, number: int, state: PartitionState) -> MetadataResponsePartition:
        """Return the partition for a Metadata or DescribeTopicPartitions response."""
        leader = self.endpoint(state.leader)
        replicas, isr = self._shown(state.replicas), self._shown(state.isr)
        is_complete = len(replicas) == len(state.replicas) and len(isr) == len(state.isr)
        error = ErrorCode.NONE if is_complete else ErrorCode.REPLICA_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=self._missing(state.leader) if leader is None else error,
            partition_index=number,
            leader_id=_NO_LEADER if leader is None else state.leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=[broker for broker in state.replicas if self._is_offline(broker, state)],
        )

    def _shown(self, brokers: Iterable[int]) -> list[int]:
        return [broker for broker in brokers if not self.leaves_out_the_dead or self.endpoint(broker) is not None]

    def _missing(self, leader: int) -> ErrorCode:
        if leader in self.image.brokers and self.names_listeners:
            return ErrorCode.LISTENER_NOT_FOUND
        return ErrorCode.LEADER_NOT_AVAILABLE

    def _is_offline(self, broker_id: int, state: PartitionState) -> bool:
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.is_fenced or self.listener not in broker.listeners:
            return True
        return not self.image.is_directory_online(broker_id, state)
