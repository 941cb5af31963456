"""The hash of the topics a group reads: a new hash means a new target assignment. Pure.

====================  =======================================================================================
hashed                bytes, little-endian
====================  =======================================================================================
a topic               0 int8 | id's upper, lower half int64 | name | partitions int32 | then for each
                      partition: number int32 | for each rack of its replicas, sorted: length int32 | rack
a text                its UTF-16 units int16 | their count int32
a group's topics      the topics' hashes int64, sorted by topic name; no topics: the hash is 0
====================  =======================================================================================

The hash is XXH3 of 64 bits, seed 0. Kafka stores it in the group's record (``metadataHash``), so a broker that takes a
group over does not rebalance it.
Source: ``computeTopicHash`` and ``computeGroupHash`` of Kafka's ``org.apache.kafka.coordinator.group.Utils``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from xxhash import xxh3_64_intdigest

from tidelog.server.groups.journal import TopicFacts

_MAGIC = 0


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
