"""The topics of Metadata responses are encoded once for an unchanged image, and again after each change."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.harness import BrokerHome, WireClient, running_broker
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.metadata import MetadataResponseTopic, write_topics
from tidelog.server.handlers.cluster import metadata
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.topics.kept_topics import KeptTopics


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerHome]:
    path: Path = tmp_path_factory.mktemp("kept")
    with running_broker(path) as running:
        running.create_topic("t", partitions=3)
        yield running


@pytest.fixture
def client(home: BrokerHome) -> Iterator[WireClient]:
    with home.client() as made:
        yield made


def names(client: WireClient, version: int = 12) -> list[str]:
    found = client.call(ApiKey.METADATA, version, topics=None).topics
    return [topic.name for topic in found if not topic.is_internal]


def test_a_change_is_seen_at_once(home: BrokerHome, client: WireClient) -> None:
    assert names(client) == names(client) == ["t"]
    home.create_topic("u")
    assert names(client) == ["t", "u"]
    home.run(lambda: home.broker.controller.delete_topics(["u"]))
    assert names(client) == ["t"]
    client.call(ApiKey.CREATE_PARTITIONS, topics=[{"name": "t", "count": 5, "assignments": None}])
    assert len(client.call(ApiKey.METADATA, 12, topics=None).topics[0].partitions) == 5


def test_topics_are_encoded_once(home: BrokerHome, client: WireClient, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []

    def noted(version: int, topics: list[MetadataResponseTopic]) -> bytes:
        encoded.append(version)
        return write_topics(version, topics)

    monkeypatch.setattr(metadata, "write_topics", noted)
    home.create_topic("once")
    for version in (12, 12, 9, 9, 12):
        assert "once" in names(client, version)
    assert encoded == [12, 9]
    some = client.call(ApiKey.METADATA, 12, topics=[{"name": "t", "topic_id": uuid.UUID(int=0)}])
    assert [topic.name for topic in some.topics] == ["t"]
    assert encoded == [12, 9, 12]


def test_operations_are_only_in_responses_to_those_who_asked(client: WireClient) -> None:
    for is_asked in (False, True, False):
        response = client.call(ApiKey.METADATA, 12, topics=None, include_topic_authorized_operations=is_asked)
        assert {topic.topic_authorized_operations != -(2**31) for topic in response.topics} == {is_asked}


def test_an_image_and_each_of_its_revisions_have_bytes_of_their_own() -> None:
    kept, image = KeptTopics(), MetadataImage()
    other = image.copy()
    assert kept.get(image, 1, lambda: b"first") == kept.get(image, 1, lambda: b"again") == b"first"
    assert kept.get(image, 2, lambda: b"another key") == b"another key"
    assert kept.get(other, 1, lambda: b"another image") == b"another image"
    image.apply(MetadataRecord("NoOpRecord", {}))
    assert kept.get(image, 1, lambda: b"a later revision") == b"a later revision"


def test_only_some_are_kept() -> None:
    kept, image = KeptTopics(), MetadataImage()
    for key in range(100):
        kept.get(image, key, lambda: b"")
        assert len(kept._kept) <= 8


def test_as_many_as_are_kept_are_encoded_once() -> None:
    kept, image, encoded = KeptTopics(), MetadataImage(), []

    def encode() -> bytes:
        encoded.append(image.revision)
        return b""

    for _ in range(3):
        for key in range(8):
            kept.get(image, key, encode)
    assert len(encoded) == 8
