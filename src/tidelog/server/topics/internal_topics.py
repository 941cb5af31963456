"""What a topic gets that is made because somebody asked for it: counts and settings, of Kafka's own topics, too. Pure.

Called by: Metadata, FindCoordinator. Source: Kafka's ``AutoTopicCreationManager`` and the coordinators' topic configs.
"""

from __future__ import annotations

from tidelog.config.broker_config import BrokerConfig
from tidelog.server.metadata.requests import NewTopic
from tidelog.server.topic_name import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC

_PREFIXES = {
    GROUP_METADATA_TOPIC: "offsets.topic",
    TRANSACTION_STATE_TOPIC: "transaction.state.log",
    SHARE_GROUP_STATE_TOPIC: "share.coordinator.state.topic",
}
"""Of the broker's keys for partitions, replication factor, segment size and in-sync replicas."""

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
    """How ``name`` is made."""
    prefix = _PREFIXES.get(name)
    if prefix is None:
        return NewTopic(name=name)
    settings = _SETTINGS[name] | {"segment.bytes": str(config.number(f"{prefix}.segment.bytes"))}
    if prefix != _PREFIXES[GROUP_METADATA_TOPIC]:
        settings["min.insync.replicas"] = str(config.number(f"{prefix}.min.isr"))
    return NewTopic(
        name=name,
        partitions=config.number(f"{prefix}.num.partitions"),
        replication_factor=config.number(f"{prefix}.replication.factor"),
        configs=settings,
    )
