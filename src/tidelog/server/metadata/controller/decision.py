"""A controller's decision, with records to write and a result, and the settings that it depends on. Pure.

Of a topic's effective configs the first that is set counts: the topic's own config, the broker's, the default of all
brokers, and the properties file. Source: Kafka's ``KafkaConfigSchema.resolveEffectiveTopicConfig``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.synonyms import TOPIC_SYNONYMS
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.value_text import Value
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord

T = TypeVar("T")

MAX_RECORDS: Final = 10_000
"""The most records of one change that a user requests (Kafka's ``MAX_RECORDS_PER_USER_OP``)."""


class Decision(NamedTuple, Generic[T]):
    """A decision. The result is returned once the records are written; without records nothing changes."""

    records: Sequence[MetadataRecord]
    result: T


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    node_id: int
    config: BrokerConfig
    """The properties file with its overrides. Later changes are in the image."""
    random: Random = field(default_factory=Random)
    """The random numbers for the placement of replicas."""


def require_bounded(records: int) -> None:
    """Raise ApiError(POLICY_VIOLATION) if a change has too many records."""
    if records > MAX_RECORDS:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


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
    first = next(iter(image.topics[topic].partitions.values()))
    return min(wanted, len(first.replicas))


def allows_unclean_election(image: MetadataImage, settings: ControllerSettings, topic: str) -> bool:
    return effective_topic_value(image, settings, topic, "unclean.leader.election.enable") is True
