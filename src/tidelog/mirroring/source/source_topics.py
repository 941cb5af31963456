"""The topics of the source that a mirror copies, at one moment. Immutable values; pure.

======================================  ==============================================================================
topic                                   is copied
======================================  ==============================================================================
matches the pattern                     if it is readable
``__consumer_offsets``                  with coordinators' topics, unless the options leave them out
``__transaction_state``                 the same
another internal topic                  never: remote log metadata and share groups' state belong to the source
hidden from this client                 unknown here: the source lists only topics that the client may describe
======================================  ==============================================================================
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.cluster.cluster_metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from tidelog.model import ConfigError, TopicPartition, UnsupportedFormatError
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TOPICS_WITHOUT_USER_RECORDS, TRANSACTION_STATE_TOPIC

COORDINATOR_TOPICS: Final = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
"""Coordinators' topics, which are copied after all other topics, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    pattern: re.Pattern[str]
    with_coordinators: bool = True

    @classmethod
    def of(cls, pattern: str, *, with_coordinators: bool = True) -> TopicSelection:
        """Compile the pattern, which must match a complete name. Raise ConfigError if it is not valid."""
        try:
            return cls(pattern=re.compile(pattern), with_coordinators=with_coordinators)
        except re.error as error:
            raise ConfigError(f"the pattern of topics {pattern!r} is not valid: {error}") from None

    def fits(self, name: str) -> bool:
        if name in COORDINATOR_TOPICS:
            return self.with_coordinators
        return name not in TOPICS_WITHOUT_USER_RECORDS and self.pattern.fullmatch(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopic:
    name: str
    topic_id: uuid.UUID
    partitions: Mapping[int, PartitionMetadata]

    @property
    def is_coordinators(self) -> bool:
        return self.name in COORDINATOR_TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTopics:
    """The selected topics by name, coordinators' topics last."""

    cluster_id: str
    topics: Mapping[str, SourceTopic]

    @classmethod
    def of(cls, metadata: ClusterMetadata, selection: TopicSelection) -> SourceTopics:
        """Return the topics. Raise UnsupportedFormatError if the source has no topic ids."""
        if metadata.cluster_id is None:
            raise UnsupportedFormatError("the source has no cluster id, so it is older than any supported release")
        names = sorted(filter(selection.fits, metadata.topics), key=_turn)
        found = {name: _topic(metadata.topics[name]) for name in names if metadata.topics[name].partitions}
        return cls(cluster_id=metadata.cluster_id, topics=found)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionMetadata]]:
        for topic in self.topics.values():
            for number, partition in sorted(topic.partitions.items()):
                yield TopicPartition(topic.name, number), partition


def _turn(name: str) -> tuple[int, str]:
    return (COORDINATOR_TOPICS.index(name) + 1 if name in COORDINATOR_TOPICS else 0, name)


def _topic(topic: TopicMetadata) -> SourceTopic:
    if topic.topic_id is None or not topic.topic_id.int:
        raise UnsupportedFormatError(
            f"topic {topic.name} has no topic id: the source is older than Kafka 2.8, or its inter.broker.protocol."
            "version or metadata.version is. A copy follows topics by their ids"
        )
    return SourceTopic(name=topic.name, topic_id=topic.topic_id, partitions=topic.partitions)
