"""The records that lead from an image to the translated znodes. Pure.

Each function takes one part of the metadata, and returns no records if the image is equal already. The caller applies
the records of one part before it asks for the records of another.

==============  =======================================================================================================
part            rules
==============  =======================================================================================================
topic           only changed partitions have records. A state below the image's partition epoch is left out, because a
                read may be older than the image. A topic without an id is not part of the image: the controller
                assigns one. Partitions are never taken away, so a missing one is a ZnodeError
topic removed   its configs go with it. A topic with another id is another topic: it begins with the image's configs
broker          another epoch is another incarnation, which replaces the first one. ZooKeeper does not know of fencing
                and of a controlled shutdown, so a broker keeps them within an epoch
ACLs            an ACL keeps the id of its record
producer ids    the next id never goes back
==============  =======================================================================================================

Source: Kafka's ``ZkMigrationClient``, ``ControllerContext``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from tidelog.model import ZnodeError
from tidelog.security.scram_credential import ScramCredential, ScramMechanism
from tidelog.server.authorization.acl import Acl, Pattern
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.broker_registration import BrokerRegistration
from tidelog.server.metadata.controller.acls import acl_record
from tidelog.server.metadata.controller.configs import config_record
from tidelog.server.metadata.image import ConfigResource, MetadataImage, QuotaEntity, Topic
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.translation import ZooKeeperTopic
from tidelog.server.metadata.zookeeper.znodes import BrokerZnode
from tidelog.storage.checkpoint import random_uuid, uuid_to_text

K = TypeVar("K")
V = TypeVar("V")


def topic_records(image: MetadataImage, name: str, topic: ZooKeeperTopic | None) -> list[MetadataRecord]:
    """Return the records for a topic; None is a topic without a znode. Raise ZnodeError for a missing partition, and
    for an id that another topic has."""
    known = image.topics.get(name)
    if topic is None:
        return [] if known is None else [_removal(known)]
    if topic.topic_id is None:
        return []
    if known is not None and known.id == topic.topic_id:
        return list(_changed_partitions(known, topic))
    other = image.topics_by_id.get(topic.topic_id)
    if other is not None:
        raise ZnodeError(f"znode {paths.topic(name)}: its topic_id is also that of {other.name}")
    topic_id = uuid_to_text(topic.topic_id)
    created = [MetadataRecord("TopicRecord", {"name": name, "topicId": topic_id})]
    created += (
        MetadataRecord("PartitionRecord", {"partitionId": number, "topicId": topic_id, **state.fields()})
        for number, state in topic.partitions.items()
    )
    if known is None:
        return created
    resource = ConfigResource(ResourceType.TOPIC, name)
    settings = image.settings_of(*resource).items()
    return [_removal(known), *(config_record(resource, key, value) for key, value in settings), *created]


def config_records(image: MetadataImage, resource: ConfigResource, settings: Mapping[str, str]) -> list[MetadataRecord]:
    """Return the records for all configs of a topic or broker."""
    changes = _changes(image.settings_of(*resource), settings)
    return [config_record(resource, key, value) for key, value in changes]


def quota_records(image: MetadataImage, entity: QuotaEntity, quotas: Mapping[str, float]) -> list[MetadataRecord]:
    """Return the records for all quotas of an entity."""
    parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
    return [
        MetadataRecord(
            "ClientQuotaRecord",
            {"entity": parts, "key": key, "value": 0.0 if value is None else value, "remove": value is None},
        )
        for key, value in _changes(image.client_quotas.get(entity, {}), quotas)
    ]


def scram_records(
    image: MetadataImage, user: str, credentials: Mapping[ScramMechanism, ScramCredential]
) -> list[MetadataRecord]:
    """Return the records for all credentials of a user."""
    known = {mechanism: users[user] for mechanism, users in image.scram_credentials.items() if user in users}
    return [
        MetadataRecord("RemoveUserScramCredentialRecord", {"name": user, "mechanism": int(mechanism)})
        if credential is None
        else MetadataRecord("UserScramCredentialRecord", credential.fields(user))
        for mechanism, credential in _changes(known, credentials)
    ]


def acl_records(image: MetadataImage, pattern: Pattern, acls: Iterable[Acl]) -> list[MetadataRecord]:
    """Return the records for all ACLs of a resource. It reads all ACLs of the image."""
    known = {acl_id: acl for acl_id, acl in image.acls.items() if acl.pattern == pattern}
    wanted = dict.fromkeys(acls)
    removed = [acl_id for acl_id, acl in known.items() if acl not in wanted]
    present = set(known.values())
    return [
        *(MetadataRecord("RemoveAccessControlEntryRecord", {"id": acl_id}) for acl_id in removed),
        *(acl_record(uuid_to_text(random_uuid()), acl) for acl in wanted if acl not in present),
    ]


def broker_records(image: MetadataImage, broker_id: int, found: tuple[int, BrokerZnode] | None) -> list[MetadataRecord]:
    """Return the records for a broker. ``found`` is the id of the transaction that created its znode (czxid), which is
    the broker epoch, with the value; None is a broker without a znode."""
    known = image.brokers.get(broker_id)
    if found is None:
        if known is None:
            return []
        return [MetadataRecord("UnregisterBrokerRecord", {"brokerId": broker_id, "brokerEpoch": known.epoch})]
    registration = _registration(broker_id, *found)
    if known is not None and known.epoch == registration.epoch:
        registration = replace(
            registration, is_fenced=known.is_fenced, in_controlled_shutdown=known.in_controlled_shutdown
        )
    return [] if registration == known else [MetadataRecord("RegisterBrokerRecord", registration.fields())]


def producer_id_records(image: MetadataImage, next_producer_id: int) -> list[MetadataRecord]:
    """Return the record for the next producer id, which is the one after the newest block."""
    if next_producer_id <= image.next_producer_id:
        return []
    fields = {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": next_producer_id}
    return [MetadataRecord("ProducerIdsRecord", fields)]


# --- one part ---


def _removal(topic: Topic) -> MetadataRecord:
    return MetadataRecord("RemoveTopicRecord", {"topicId": uuid_to_text(topic.id)})


def _changed_partitions(known: Topic, topic: ZooKeeperTopic) -> Iterator[MetadataRecord]:
    missing = known.partitions.keys() - topic.partitions.keys()
    if missing:
        raise ZnodeError(
            f"znode {paths.topic(known.name)}: partition {min(missing)} is missing, but Kafka never takes a"
            " partition away"
        )
    topic_id = uuid_to_text(known.id)
    for number, state in topic.partitions.items():
        before = known.partitions.get(number)
        if before is None or (state != before and state.partition_epoch >= before.partition_epoch):
            yield MetadataRecord("PartitionRecord", {"partitionId": number, "topicId": topic_id, **state.fields()})


def _registration(broker_id: int, epoch: int, znode: BrokerZnode) -> BrokerRegistration:
    return BrokerRegistration(
        id=broker_id,
        epoch=epoch,
        incarnation_id=uuid.UUID(int=epoch << 64 | broker_id),
        listeners={endpoint.name: endpoint for endpoint in znode.listeners},
        features=znode.features,
        rack=znode.rack,
        is_fenced=False,
        in_controlled_shutdown=False,
        log_dirs=frozenset(),
    )


def _changes(known: Mapping[K, V], wanted: Mapping[K, V]) -> Iterator[tuple[K, V | None]]:
    """Yield the changed values by key; None is a value to remove."""
    yield from ((key, None) for key in known if key not in wanted)
    yield from ((key, value) for key, value in wanted.items() if known.get(key) != value)
