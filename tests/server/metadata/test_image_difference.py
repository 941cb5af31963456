"""The difference of two images is a change like any other: it turns the old image into the new one."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from random import Random

import pytest

from server.metadata.images import image_of
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.configs import config_record
from tidelog.server.metadata.image import ConfigResource, MetadataImage
from tidelog.server.metadata.kraft.image_difference import image_difference
from tidelog.server.metadata.kraft.snapshot import image_records
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.published_metadata import apply_all
from tidelog.storage.checkpoint import uuid_to_text

NAMES = ("a", "b", "c", "d")


def topic_records(name: str, topic_id: uuid.UUID, partitions: int, random: Random) -> Iterable[MetadataRecord]:
    text = uuid_to_text(topic_id)
    yield MetadataRecord("TopicRecord", {"name": name, "topicId": text})
    for number in range(partitions):
        leader = random.choice((1, 2))
        state = PartitionState(
            replicas=(1, 2), isr=(leader,), leader=leader, leader_epoch=random.randrange(3), directories=(topic_id,) * 2
        )
        yield MetadataRecord("PartitionRecord", {"partitionId": number, "topicId": text, **state.fields()})


def random_image(random: Random) -> MetadataImage:
    """Return an image with some of a few objects of each kind."""
    brokers = random.sample((1, 2, 3), random.randrange(4))
    image = image_of(brokers, fenced=brokers[:1])
    records: list[MetadataRecord] = [
        MetadataRecord("FeatureLevelRecord", {"name": "group.version", "featureLevel": random.randrange(2)}),
        MetadataRecord(
            "ProducerIdsRecord", {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": random.randrange(1, 9)}
        ),
    ]
    for name in random.sample(NAMES, random.randrange(len(NAMES) + 1)):
        topic_id = uuid.UUID(int=100 + random.randrange(2) + 10 * NAMES.index(name))
        records += topic_records(name, topic_id, 1 + topic_id.int % 2, random)  # partitions are never removed
        for key in random.sample(("retention.ms", "cleanup.policy"), random.randrange(3)):
            records.append(config_record(ConfigResource(ResourceType.TOPIC, name), key, str(random.randrange(2))))
    for name in random.sample(NAMES, random.randrange(3)):
        user = [{"entityType": "user", "entityName": name}]
        quota = {"entity": user, "key": "producer_byte_rate", "value": float(random.randrange(2)), "remove": False}
        records.append(MetadataRecord("ClientQuotaRecord", quota))
        credential = {"mechanism": 1, "salt": b"s", "storedKey": b"k", "serverKey": b"v", "iterations": 4096}
        records.append(MetadataRecord("UserScramCredentialRecord", {"name": name, **credential}))
        acl = {"id": name, "resourceType": 2, "resourceName": name, "patternType": 3, "principal": "User:u"}
        more = {"host": "*", "operation": random.choice((3, 4)), "permissionType": 3}
        records.append(MetadataRecord("AccessControlEntryRecord", {**acl, **more}))
        token = {"owner": "u", "requester": "u", "tokenId": name, "issueTimestamp": random.randrange(2)}
        records.append(MetadataRecord("DelegationTokenRecord", token))
        records.append(
            MetadataRecord("RegisterControllerRecord", {"controllerId": NAMES.index(name), "incarnation": 1})
        )
    apply_all(image, records, 0)
    return image


def contents(image: MetadataImage) -> list[MetadataRecord]:
    return sorted(image_records(image), key=repr)


@pytest.mark.parametrize("seed", range(300))
def test_the_difference_turns_one_image_into_another(seed: int) -> None:
    random = Random(seed)
    before, after = random_image(random), random_image(random)
    kept = contents(before)
    records = list(image_difference(before, after))
    assert contents(before) == kept
    change = apply_all(before, records, 7)
    assert contents(before) == contents(after)
    assert change.end_offset == 7
    assert not list(image_difference(before, after))


def test_a_topic_that_was_created_again_keeps_no_part_of_the_old_one() -> None:
    before, after = image_of((1, 2)), image_of((1, 2))
    kept = config_record(ConfigResource(ResourceType.TOPIC, "a"), "retention.ms", "1")
    apply_all(before, [*topic_records("a", uuid.UUID(int=100), 2, Random(1)), kept], 0)
    apply_all(after, [*topic_records("a", uuid.UUID(int=101), 1, Random(1)), kept], 0)
    change = apply_all(before, image_difference(before, after), 0)
    assert [topic.id.int for topic in change.deleted_topics] == [100]
    assert [topic.id.int for topic in change.created_topics] == [101]
    assert before.settings_of(ResourceType.TOPIC, "a") == {"retention.ms": "1"}
