"""The rules of the controller's duties, and of a broker that starts. Pure.

=====================================  ===============================================================================
found                                  change
=====================================  ===============================================================================
a broker in sync or leading, that is   it leaves the in-sync replicas, and another one leads
not registered
a partition without a leader           an in-sync replica leads, if its broker is registered
a topic without an id                  it gets one (KIP-516)
a partition without a state            the first registered replica leads, and those that are registered are in sync
``/admin/reassign_partitions``         reassignments begin, and the znode is deleted
``/admin/preferred_replica_election``  preferred replicas lead, and the znode is deleted
a starting broker that leads           it leads no longer: its next leadership has a new leader epoch, because a crash
                                       may have taken records of this epoch
a broker in sync that starts or stops  it leaves the in-sync replicas, if another one of them is registered
=====================================  ===============================================================================

Source: Kafka's ``KafkaController``, ``PartitionStateMachine``, ``ReplicaStateMachine``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidelog.model import TopicPartition
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision
from tidelog.server.metadata.controller.leaders import PartitionRef, add_broker, remove_broker
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import NO_LEADER
from tidelog.server.metadata.requests import Reassignment
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import Operation, SetData
from tidelog.server.metadata.zookeeper.znode_json import JsonFields
from tidelog.server.metadata.zookeeper.znodes import StateZnode, TopicZnode
from tidelog.server.metadata.zookeeper_cluster.mirror import ZnodeMirror
from tidelog.server.metadata.zookeeper_cluster.operation_list import OperationList
from tidelog.storage.checkpoint import random_uuid, uuid_to_text


def departed_brokers(image: MetadataImage) -> list[int]:
    """Return the brokers that are in sync or lead somewhere, but are not registered.

    A broker that is the only one in sync of all its partitions, and leads none, has nothing to lose.
    """
    found: set[int] = set()
    for _, _, state in image.partitions():
        if len(state.isr) > 1:
            found.update(broker for broker in state.isr if not image.is_active(broker))
        if state.has_leader and not image.is_active(state.leader):
            found.add(state.leader)
    return sorted(found)


def has_leaderless(image: MetadataImage) -> bool:
    return any(not state.has_leader for _, _, state in image.partitions())


def elect(image: MetadataImage, settings: ControllerSettings) -> Decision[None]:
    """Elect leaders for partitions without one, among the registered brokers."""
    return Decision(add_broker(image, settings, NO_LEADER), None)


def hand_over(image: MetadataImage, settings: ControllerSettings, broker_id: int) -> Decision[None]:
    """Take a broker that stops out of the in-sync replicas, where another one of them is registered and can lead."""
    return Decision(remove_broker(image, settings, broker_id, _replaceable(image, broker_id)), None)


def rejoin(image: MetadataImage, settings: ControllerSettings, broker_id: int) -> Decision[None]:
    """Take a broker that starts out of the leaderships and in-sync replicas of its earlier run."""
    left = _replaceable(image, broker_id)
    moved = {(place.topic.id, place.number) for place in left}
    resigned = [
        MetadataRecord(
            "PartitionChangeRecord",
            {"partitionId": number, "topicId": uuid_to_text(topic.id), "leader": NO_LEADER},
        )
        for topic, number, state in image.partitions()
        if state.leader == broker_id and (topic.id, number) not in moved
    ]
    return Decision([*remove_broker(image, settings, broker_id, left), *resigned], None)


def _replaceable(image: MetadataImage, broker_id: int) -> list[PartitionRef]:
    """Return the partitions for which a broker and another one, which is registered, are in sync."""
    return [
        PartitionRef(topic, number, state)
        for topic, number, state in image.partitions()
        if broker_id in state.isr and any(other != broker_id and image.is_active(other) for other in state.isr)
    ]


def leave(
    image: MetadataImage, settings: ControllerSettings, broker_id: int, partitions: Sequence[TopicPartition]
) -> Decision[None]:
    """Take a broker out of the leaderships and in-sync replicas of partitions."""
    places = [
        PartitionRef(image.topics[name.topic], name.partition, state)
        for name in partitions
        if (state := image.partition(name)) is not None and broker_id in state.isr
    ]
    return Decision(remove_broker(image, settings, broker_id, places), None)


def id_operations(mirror: ZnodeMirror, name: str) -> list[Operation]:
    """Give a topic an id, if it has none."""
    path = paths.topic(name)
    found = mirror.get(path)
    if found is None:
        return []
    topic = TopicZnode.decode(path, found.data)
    if topic.topic_id is not None:
        return []
    return [SetData(path, replace(topic, topic_id=random_uuid()).encode(), found.version)]


def state_operations(image: MetadataImage, mirror: ZnodeMirror, name: str, *, controller_epoch: int) -> list[Operation]:
    """Make the missing states of a topic's partitions. One without a registered replica waits for a broker."""
    path = paths.topic(name)
    found = mirror.get(path)
    if found is None:
        return []
    out = OperationList(mirror)
    for number, replicas in TopicZnode.decode(path, found.data).replicas.items():
        state_path = paths.state(name, number)
        isr = tuple(filter(image.is_active, replicas))
        if state_path not in mirror and isr:
            state = StateZnode(leader=isr[0], leader_epoch=0, controller_epoch=controller_epoch, isr=isr)
            out.write(state_path, state.encode())
    return out.operations


def requested_reassignments(data: bytes) -> list[Reassignment]:
    """Return the requests of ``/admin/reassign_partitions``. Raise ZnodeError if it is not valid."""
    return [
        Reassignment(one.text("topic"), one.number("partition"), one.numbers("replicas"))
        for one in _requests(paths.REASSIGNMENT, data)
    ]


def requested_elections(data: bytes) -> list[TopicPartition]:
    """Return the partitions of ``/admin/preferred_replica_election``. Raise ZnodeError if it is not valid."""
    return [
        TopicPartition(one.text("topic"), one.number("partition")) for one in _requests(paths.PREFERRED_ELECTION, data)
    ]


def _requests(path: str, data: bytes) -> Sequence[JsonFields]:
    fields = JsonFields.of(path, data)
    fields.version(1)
    return list(fields.inner_all("partitions"))
