"""The counts and configs of automatically created and internal topics, and the partition of a key. Pure.

A coordinator leads the partition ``Utils.abs(key.hashCode()) % partitions`` of its topic, as Java computes it. Keys are
group ids and transactional ids.

Source: Kafka's ``AutoTopicCreationManager`` and the coordinators' topic configs.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.config.broker_config import BrokerConfig
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.java_hash import absolute, string_hash
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.requests import NewTopic


class _Keys(NamedTuple):
    """The broker's config keys for an internal topic."""

    partitions: str
    replication_factor: str
    segment_bytes: str
    min_isr: str | None = None


_KEYS = {
    GROUP_METADATA_TOPIC: _Keys(
        "offsets.topic.num.partitions", "offsets.topic.replication.factor", "offsets.topic.segment.bytes"
    ),
    TRANSACTION_STATE_TOPIC: _Keys(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "transaction.state.log.min.isr",
    ),
    SHARE_GROUP_STATE_TOPIC: _Keys(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        "share.coordinator.state.topic.min.isr",
    ),
}

_SETTINGS = {
    GROUP_METADATA_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTION_STATE_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
    },
    SHARE_GROUP_STATE_TOPIC: {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
}


def automatic_topic(name: str, config: BrokerConfig) -> NewTopic:
    """Return the topic to create, by the configs of the broker that was asked, not by those of the controller."""
    keys = _KEYS.get(name)
    if keys is None:
        return NewTopic(
            name=name,
            partitions=config.number("num.partitions"),
            replication_factor=config.number("default.replication.factor"),
        )
    settings = _SETTINGS[name] | {"segment.bytes": str(config.number(keys.segment_bytes))}
    if keys.min_isr is not None:
        settings["min.insync.replicas"] = str(config.number(keys.min_isr))
    return NewTopic(
        name=name,
        partitions=config.number(keys.partitions),
        replication_factor=config.number(keys.replication_factor),
        configs=settings,
    )


def partition_count(name: str, image: MetadataImage, config: BrokerConfig) -> int:
    """Return the partition count of an internal topic: its own, or the configured one before it exists."""
    topic = image.topics.get(name)
    return len(topic.partitions) if topic else config.number(_KEYS[name].partitions)


def partition_of(key: str, partitions: int) -> int:
    """Return the number of the partition, of ``partitions``, whose leader coordinates ``key``."""
    return absolute(string_hash(key)) % partitions
