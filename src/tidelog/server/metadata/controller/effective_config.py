"""The effective configs of topics.

The first of these that is set counts: the topic's own config, the broker's, the default of all brokers, and the
properties file. Pure. Source: Kafka's ``KafkaConfigSchema.resolveEffectiveTopicConfig``.
"""

from __future__ import annotations

from tidelog.config.synonyms import TOPIC_SYNONYMS
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.value_text import Value
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.decision import ControllerSettings
from tidelog.server.metadata.image import MetadataImage


def effective_topic_value(image: MetadataImage, settings: ControllerSettings, topic: str, key: str) -> Value | None:
    """Return the value of a topic key. Its broker keys must have the same unit."""
    own = image.settings_of(ResourceType.TOPIC, topic).get(key)
    if own is not None:
        return TOPIC_KEYS[key].parse(own)
    for broker in (str(settings.node_id), ""):
        dynamic = image.settings_of(ResourceType.BROKER, broker)
        for synonym in TOPIC_SYNONYMS[key]:
            if synonym.name in dynamic:
                return TOPIC_KEYS[key].parse(dynamic[synonym.name])
    default = settings.config.topic_default(key)
    return None if default is None else default[0]


def min_isr(image: MetadataImage, settings: ControllerSettings, topic: str) -> int:
    """Return ``min.insync.replicas``, at most the topic's number of replicas."""
    wanted = effective_topic_value(image, settings, topic, "min.insync.replicas")
    assert isinstance(wanted, int), topic
    return min(wanted, len(image.topics[topic].partitions[0].replicas))


def allows_unclean_election(image: MetadataImage, settings: ControllerSettings, topic: str) -> bool:
    return effective_topic_value(image, settings, topic, "unclean.leader.election.enable") is True
