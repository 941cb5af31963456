"""The hash of a group's topics, compared with values that Kafka 4.1 and its hashing library computed."""

from __future__ import annotations

import uuid

import pytest
from xxhash import xxh3_64_intdigest

from server.metadata.images import image_of, partition_of, with_topic
from tidelog.model.kafka_uuid import uuid_to_text
from tidelog.server.groups.state.group_topics import ImageTopics, TopicFacts, group_hash, topic_hash
from tidelog.server.metadata.image import MetadataChange
from tidelog.server.metadata.metadata_record import MetadataRecord

TOPIC_ID = uuid.UUID("01234567-89ab-cdef-fedc-ba9876543210")

# Length, hash of that many bytes ``(7 * index + 3) % 256``.
HASHES = [
    (0, 3244421341483603138),
    (1, 1433843135270481901),
    (3, 12180141160879835164),
    (4, 7895465118229274323),
    (8, 6941064856527638883),
    (9, 18374517719163151272),
    (16, 13314990914799711621),
    (17, 8163341949877205007),
    (64, 2917965298538373825),
    (65, 9408609914592003654),
    (128, 7440608504995537343),
    (129, 14295761343243267012),
    (240, 7229805477010515663),
    (241, 10082113959289486871),
    (1024, 11205349619999208113),
    (1025, 9253807012321506678),
    (2049, 6174105427284153526),
    (5000, 8762507191635236893),
]

# Number of partitions, rack of every replica, hash of topic "orders", hash of a group that reads only it.
TOPICS = [
    (1, None, 12115414769403396258, -6770912035738735559),
    (3, "r1", 8625239277682248379, -4358399189910072809),
    (50, None, 957326140368260366, 746297638802805780),
]


@pytest.mark.parametrize(("length", "expected"), HASHES)
def test_xxh3(length: int, expected: int) -> None:
    assert xxh3_64_intdigest(bytes((7 * index + 3) % 256 for index in range(length))) == expected


@pytest.mark.parametrize(("partitions", "rack", "of_topic", "of_group"), TOPICS)
def test_topics_and_groups(partitions: int, rack: str | None, of_topic: int, of_group: int) -> None:
    racks = () if rack is None else ((rack,),) * partitions
    topic = TopicFacts(TOPIC_ID, "orders", partitions, racks)
    assert topic_hash(topic) == of_topic
    assert group_hash([topic]) == of_group


def test_no_topics() -> None:
    assert group_hash([]) == 0


def test_the_order_of_the_topics_does_not_matter() -> None:
    topics = [TopicFacts(TOPIC_ID, name, 1) for name in ("b", "a", "c")]
    assert group_hash(topics) == group_hash(reversed(topics))


def test_a_topic_with_more_partitions_has_changed() -> None:
    image, change = image_of((1,)), MetadataChange()
    for name in ("grown", "same"):
        with_topic(image, partition_of((1,)), name=name)
    grown, same = (uuid_to_text(image.topics[name].id) for name in ("grown", "same"))
    more = {"topicId": grown, "partitionId": 1, **partition_of((1,)).fields()}
    image.apply(MetadataRecord("PartitionRecord", more), change)
    image.apply(MetadataRecord("PartitionChangeRecord", {"topicId": same, "partitionId": 0, "isr": [1]}), change)
    assert ImageTopics(lambda: image, lambda: 0).changed_topic_names(change) == {"grown"}
