"""Images for tests of the controller's rules: brokers, and topics whose partitions a test defines."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from random import Random
from typing import Any

from tidelog.config.broker_config import BrokerConfig
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.server.metadata.broker_registration import BrokerRegistration
from tidelog.server.metadata.controller.decision import ControllerSettings
from tidelog.server.metadata.controller.feature_updates import feature_record
from tidelog.server.metadata.features import NEW_CLUSTER, SUPPORTED
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.storage.checkpoint import uuid_to_text

TOPIC_ID = uuid.UUID(int=1000)


def directory_of(broker: int) -> uuid.UUID:
    return uuid.UUID(int=100_000 + broker)


def settings(**keys: str) -> ControllerSettings:
    """Return settings from Kafka's keys with ``_`` for ``.``."""
    config = BrokerConfig.load(overrides={key.replace("_", "."): value for key, value in keys.items()})
    return ControllerSettings(node_id=1, config=config, random=Random(7))


def image_of(
    brokers: Iterable[int] = (1,), *, fenced: Iterable[int] = (), racks: dict[int, str] | None = None
) -> MetadataImage:
    """Return the image of a new cluster with registered brokers."""
    image = MetadataImage(cluster_id="cluster")
    for name, level in NEW_CLUSTER.items():
        image.apply(feature_record(name, level))
    for broker in brokers:
        registration = BrokerRegistration(
            id=broker,
            epoch=broker * 10,
            incarnation_id=uuid.UUID(int=broker),
            listeners={"PLAINTEXT": BrokerEndpoint("PLAINTEXT", f"host-{broker}", 9092)},
            features=SUPPORTED,
            rack=(racks or {}).get(broker),
            is_fenced=broker in fenced,
            in_controlled_shutdown=False,
            log_dirs=frozenset({directory_of(broker)}),
        )
        image.apply(MetadataRecord("RegisterBrokerRecord", registration.fields()))
    return image


def partition_of(replicas: tuple[int, ...], **fields: Any) -> PartitionState:
    """Return a partition whose leader is its first in-sync replica. By default, all replicas are in sync."""
    isr = fields.pop("isr", replicas)
    return PartitionState(
        replicas=replicas,
        isr=isr,
        leader=fields.pop("leader", isr[0] if isr else -1),
        directories=tuple(map(directory_of, replicas)),
        **fields,
    )


def with_topic(image: MetadataImage, *partitions: PartitionState, name: str = "t") -> MetadataImage:
    """Add a topic and return the same image."""
    topic_id = TOPIC_ID if name == "t" else uuid.uuid5(TOPIC_ID, name)
    image.apply(MetadataRecord("TopicRecord", {"name": name, "topicId": uuid_to_text(topic_id)}))
    for number, state in enumerate(partitions):
        fields = {"partitionId": number, "topicId": uuid_to_text(topic_id), **state.fields()}
        image.apply(MetadataRecord("PartitionRecord", fields))
    return image
