"""The metadata records that bring a copy's metadata up to its source. Pure.

====================================  ================================================================================
the source has                        the copy gets
====================================  ================================================================================
a topic                               a topic of the same name and id; its settings
another topic of the same name        the old topic is removed first
a partition                           a partition whose only replica, leader and in-sync replica is the copy's node
a partition in a newer leader epoch   the same partition with that epoch
other settings of a topic             the difference
ACLs                                  missing ones added, others removed
producers of any id                   a next producer id above it
====================================  ================================================================================

A partition is complete in each record, because a ``PartitionChangeRecord`` cannot set an epoch. The copy's node is
named as leader, so that it is eligible when a broker starts on the copy.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tidelog.server.authorization.acl import Acl
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.acls import acl_record
from tidelog.server.metadata.controller.brokers import PRODUCER_ID_BLOCK
from tidelog.server.metadata.controller.configs import config_record
from tidelog.server.metadata.image import ConfigResource, MetadataImage, Topic
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.storage.checkpoint import random_uuid, uuid_to_text

PRODUCER_ID_MARGIN: Final = 1_000 * PRODUCER_ID_BLOCK
"""The ids that are reserved above the largest one seen, so that a reservation is rare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTopic:
    """A topic of the source, as the copy's metadata must have it."""

    name: str
    topic_id: uuid.UUID
    epochs: Mapping[int, int]
    """The leader epochs by partition."""
    settings: Mapping[str, str] | None
    """The topic's settings; None leaves those of the copy as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """The place of all partitions of the copy."""

    node_id: int
    directory_id: uuid.UUID


def topic_records(image: MetadataImage, topic: CopiedTopic, replica: Replica) -> Iterator[MetadataRecord]:
    """Yield the records for one topic of the source; none if the image has it already."""
    known = image.topics.get(topic.name)
    if known is not None and known.id != topic.topic_id:
        yield removal(known)
        known = None
    topic_id = uuid_to_text(topic.topic_id)
    if known is None:
        yield MetadataRecord("TopicRecord", {"name": topic.name, "topicId": topic_id})
    for number, epoch in topic.epochs.items():
        before = None if known is None else known.partitions.get(number)
        after = _partition(before, epoch, replica)
        if after != before:
            yield MetadataRecord("PartitionRecord", {"partitionId": number, "topicId": topic_id, **after.fields()})
    if topic.settings is not None:
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        current = {} if known is None else image.settings_of(*resource)
        for key in current.keys() - topic.settings.keys():
            yield config_record(resource, key, None)
        for key, value in topic.settings.items():
            if current.get(key) != value:
                yield config_record(resource, key, value)


def _partition(before: PartitionState | None, epoch: int, replica: Replica) -> PartitionState:
    if before is None:
        only = (replica.node_id,)
        return PartitionState(
            replicas=only, isr=only, leader=replica.node_id, leader_epoch=epoch, directories=(replica.directory_id,)
        )
    if epoch <= before.leader_epoch:
        return before
    return replace(before, leader_epoch=epoch, partition_epoch=before.partition_epoch + 1)


def removal(topic: Topic) -> MetadataRecord:
    """Return the record that removes a topic with its partitions and settings."""
    return MetadataRecord("RemoveTopicRecord", {"topicId": uuid_to_text(topic.id)})


def acl_records(image: MetadataImage, acls: Collection[Acl]) -> Iterator[MetadataRecord]:
    """Yield the records that replace the ACLs of the image by those of the source."""
    wanted = set(acls)
    for acl_id, acl in image.acls.items():
        if acl not in wanted:
            yield MetadataRecord("RemoveAccessControlEntryRecord", {"id": acl_id})
    known = set(image.acls.values())
    for acl in dict.fromkeys(acls):
        if acl not in known:
            yield acl_record(uuid_to_text(random_uuid()), acl)


def producer_id_records(image: MetadataImage, largest: int, node_id: int) -> Iterable[MetadataRecord]:
    """Return the record that reserves all ids up to ``largest`` and a margin; none if they are reserved."""
    if largest < image.next_producer_id:
        return ()
    following = (largest + PRODUCER_ID_MARGIN) // PRODUCER_ID_BLOCK * PRODUCER_ID_BLOCK
    fields = {"brokerId": node_id, "brokerEpoch": -1, "nextProducerId": following}
    return (MetadataRecord("ProducerIdsRecord", fields),)
