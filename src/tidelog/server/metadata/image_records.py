"""The records that recreate an image, as a snapshot contains them. Pure.

They have Kafka's order, so that each record finds the objects that it refers to: features (``metadata.version`` first),
brokers and controllers, topics with their partitions, configs, quotas, the next producer id, ACLs, SCRAM credentials,
and the records that are kept unchanged.
Source: Kafka's ``MetadataImage.write``.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.server.metadata.controller.acls import acl_record
from tidelog.server.metadata.controller.configs import config_record
from tidelog.server.metadata.controller.feature_updates import feature_record
from tidelog.server.metadata.image import METADATA_VERSION, MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.storage.checkpoint import uuid_to_text


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    yield from _features(image)
    for broker in image.brokers.values():
        yield MetadataRecord("RegisterBrokerRecord", broker.fields())
    for fields in image.controllers.values():
        yield MetadataRecord("RegisterControllerRecord", fields)
    yield from _topics(image)
    for resource, settings in image.configs.items():
        for key, value in settings.items():
            yield config_record(resource, key, value)
    yield from _quotas(image)
    if image.next_producer_id:
        yield MetadataRecord(
            "ProducerIdsRecord", {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": image.next_producer_id}
        )
    for acl_id, acl in image.acls.items():
        yield acl_record(acl_id, acl)
    for users in image.scram_credentials.values():
        for user, credential in users.items():
            yield MetadataRecord("UserScramCredentialRecord", credential.fields(user))
    yield from image.delegation_tokens.values()


def _features(image: MetadataImage) -> Iterator[MetadataRecord]:
    yield feature_record(METADATA_VERSION, image.metadata_version)
    for name, level in image.features.items():
        if name != METADATA_VERSION:
            yield feature_record(name, level)


def _topics(image: MetadataImage) -> Iterator[MetadataRecord]:
    for topic in image.topics.values():
        topic_id = uuid_to_text(topic.id)
        yield MetadataRecord("TopicRecord", {"name": topic.name, "topicId": topic_id})
        for number, state in topic.partitions.items():
            yield MetadataRecord("PartitionRecord", {"partitionId": number, "topicId": topic_id, **state.fields()})


def _quotas(image: MetadataImage) -> Iterator[MetadataRecord]:
    for entity, quotas in image.client_quotas.items():
        parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
        for key, value in quotas.items():
            yield MetadataRecord("ClientQuotaRecord", {"entity": parts, "key": key, "value": value, "remove": False})
