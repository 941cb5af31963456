"""The client's immutable view of a cluster: brokers, controller, topics, and the leader of each partition. Pure.

=================================================  ====================================================================
a Metadata response                                changes the view
=================================================  ====================================================================
of all topics                                      replaces all topics: deleted ones are gone
of some topics                                     replaces these; a topic that does not exist any more is removed
with an older leader epoch of the same topic id    the partition keeps what is known: that broker lags behind
with another id of a topic                         replaces it, whatever the epochs: it was deleted and created again
=================================================  ====================================================================

Source: Kafka's ``Metadata``, ``MetadataSnapshot``; KIP-320, KIP-516, KIP-951.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from tidelog.client.model.address import Address
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.leader_hints import NodeEndpoint

UNKNOWN_EPOCH = -1
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Node(NamedTuple):
    """A broker of the cluster, with the address for this client."""

    node_id: int
    address: Address
    rack: str | None = None


class PartitionMetadata(NamedTuple):
    """A partition. ``leader_id`` is -1 without a leader; ``error_code`` says why."""

    partition: int
    error_code: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    name: str
    topic_id: UUID | None
    """None from a broker before Kafka 2.8."""
    error_code: int = 0
    """TOPIC_AUTHORIZATION_FAILED, or another reason for which there are no partitions."""
    is_internal: bool = False
    partitions: Mapping[int, PartitionMetadata] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    cluster_id: str | None = None
    controller_id: int = -1
    """The broker for an administrator's requests; -1 if none is known."""
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)

    def leader_of(self, topic: str, partition: int) -> PartitionMetadata | None:
        """Return a partition with a leader, or None if the partition or its leader is unknown."""
        found = self.topics.get(topic)
        data = None if found is None else found.partitions.get(partition)
        return None if data is None or data.leader_id not in self.nodes else data

    def updated(self, response: Any, requested: Iterable[str] | None) -> ClusterMetadata:
        """Return the view after a Metadata response of the requested topics; None requested all."""
        topics = {} if requested is None else dict(self.topics)
        for name in requested or ():
            topics.pop(name, None)
        for one in response.topics:
            if one.name is not None and one.error_code not in _GONE:
                topics[one.name] = self._topic(one)
        return ClusterMetadata(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            nodes={one.node_id: Node(one.node_id, Address(one.host, one.port), one.rack) for one in response.brokers},
            topics=topics,
        )

    def with_leader(
        self, topic: str, partition: int, leader_id: int, leader_epoch: int, endpoints: Iterable[NodeEndpoint] = ()
    ) -> ClusterMetadata:
        """Return the view after a leader hint of a Produce or Fetch response (KIP-951). An older epoch changes
        nothing."""
        found = self.topics.get(topic)
        data = None if found is None else found.partitions.get(partition)
        if found is None or data is None or leader_epoch <= data.leader_epoch:
            return self
        nodes = dict(self.nodes)
        for one in endpoints:
            if one.node_id == leader_id:
                nodes[leader_id] = Node(leader_id, Address(one.host, one.port), one.rack)
        if leader_id not in nodes:
            return self
        changed = data._replace(leader_id=leader_id, leader_epoch=leader_epoch, error_code=0)
        partitions = {**found.partitions, partition: changed}
        return replace(self, nodes=nodes, topics={**self.topics, topic: replace(found, partitions=partitions)})

    def _topic(self, response: Any) -> TopicMetadata:
        before = self.topics.get(response.name)
        known = before.partitions if before is not None and before.topic_id == response.topic_id else {}
        partitions = {}
        for one in response.partitions:
            old = known.get(one.partition_index)
            is_older = old is not None and one.leader_epoch < old.leader_epoch
            partitions[one.partition_index] = old if old is not None and is_older else _partition(one)
        return TopicMetadata(
            name=response.name,
            topic_id=response.topic_id,
            error_code=response.error_code,
            is_internal=response.is_internal,
            partitions=partitions,
        )


def _partition(response: Any) -> PartitionMetadata:
    return PartitionMetadata(
        response.partition_index,
        response.error_code,
        response.leader_id,
        response.leader_epoch,
        response.replica_nodes,
        response.isr_nodes,
        response.offline_replicas,
    )
