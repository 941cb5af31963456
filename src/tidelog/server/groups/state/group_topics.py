"""The topics of the metadata image in the form that groups need, and their hash.

A group stores the hash of the topics that it reads. A new hash means a new target assignment:

====================  =======================================================================================
hashed                bytes, little-endian
====================  =======================================================================================
a topic               0 int8 | id's upper, lower half int64 | name | partitions int32 | then for each
                      partition: number int32 | for each rack of its replicas, sorted: length int32 | rack
a text                its UTF-16 units int16 | their count int32
a group's topics      the topics' hashes int64, sorted by topic name; no topics: the hash is 0
====================  =======================================================================================

The hash is XXH3 of 64 bits, seed 0. Kafka stores it in the group's record (``metadataHash``), so a broker that takes a
group over does not rebalance it. Thread rule: the event loop only.
Source: ``computeTopicHash`` and ``computeGroupHash`` of Kafka's ``org.apache.kafka.coordinator.group.Utils``.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from xxhash import xxh3_64_intdigest

from tidelog.server.metadata.image import MetadataChange, MetadataImage, Topic

_MAGIC = 0

VisibleTopics = Callable[[Iterable[str]], Collection[str]]
"""A function that returns the topic names that the client of a request may see."""


def every_topic(names: Iterable[str]) -> Collection[str]:
    """Return all names, for a client that may see every topic."""
    return list(names)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic's facts for assignments and hashes. ``racks`` has the known racks of each partition's replicas."""

    id: uuid.UUID
    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


class Topics(Protocol):
    """The current topics of the cluster."""

    @property
    def version(self) -> int:
        """The version of the metadata, which grows with every change."""
        ...

    @property
    def last_creation_version(self) -> int:
        """The version of the last change that created topics."""
        ...

    @property
    def names(self) -> Collection[str]: ...

    def by_name(self, name: str) -> TopicFacts | None: ...

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None: ...


class ImageTopics:
    """``Topics`` over the current image. ``changed_topic_names`` receives every metadata change."""

    def __init__(self, image: Callable[[], MetadataImage], applied_offset: Callable[[], int]) -> None:
        """``applied_offset`` is the offset of the image's last record, which is Kafka's version of the image."""
        self._image = image
        self._applied_offset = applied_offset
        self.last_creation_version = -1

    @property
    def version(self) -> int:
        return self._applied_offset()

    def changed_topic_names(self, change: MetadataChange) -> frozenset[str]:
        """Note the change. Return the names of the topics that were created, deleted, or got more partitions."""
        if change.created_topics:
            self.last_creation_version = change.end_offset - 1
        names = {topic.name for topic in (*change.created_topics, *change.deleted_topics)}
        for (topic_id, _), delta in change.partitions.items():
            topic = self._image().topics_by_id.get(topic_id)
            if topic is not None and delta.before is None:
                names.add(topic.name)
        return frozenset(names)

    @property
    def names(self) -> Collection[str]:
        return self._image().topics.keys()

    def by_name(self, name: str) -> TopicFacts | None:
        return self._facts(self._image().topics.get(name))

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None:
        return self._facts(self._image().topics_by_id.get(topic_id))

    def _facts(self, topic: Topic | None) -> TopicFacts | None:
        if topic is None:
            return None
        brokers = self._image().brokers
        racks = {number: broker.rack for number, broker in brokers.items() if broker.rack is not None}
        of_partitions = (
            tuple(
                tuple(racks[replica] for replica in state.replicas if replica in racks)
                for _, state in sorted(topic.partitions.items())
            )
            if racks
            else ()
        )
        return TopicFacts(topic.id, topic.name, len(topic.partitions), of_partitions)


def group_hash(topics: Iterable[TopicFacts]) -> int:
    """Return the hash as a signed number, as in the record."""
    ordered = sorted(topics, key=lambda topic: topic.name.encode("utf-16-be"))
    if not ordered:
        return 0
    data = b"".join(struct.pack("<Q", topic_hash(topic)) for topic in ordered)
    unsigned = xxh3_64_intdigest(data)
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned


@lru_cache(maxsize=1024)
def topic_hash(topic: TopicFacts) -> int:
    upper, lower = struct.unpack(">QQ", topic.id.bytes)
    parts = [struct.pack("<bQQ", _MAGIC, upper, lower), _text(topic.name), struct.pack("<i", topic.partitions)]
    for number in range(topic.partitions):
        parts.append(struct.pack("<i", number))
        racks = topic.racks[number] if number < len(topic.racks) else ()
        for rack in sorted(racks):
            parts += (struct.pack("<i", _units(rack)), _text(rack))
    return xxh3_64_intdigest(b"".join(parts))


def _text(text: str) -> bytes:
    return text.encode("utf-16-le") + struct.pack("<i", _units(text))


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
