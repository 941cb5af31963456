"""Topics by id, and a broker with disabled deletion. A comparison of two brokers cannot cover these facts."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from server.harness import BrokerHome, WireClient, running_broker
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode


def create(client: WireClient, *names: str) -> list[UUID]:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    return [topic.topic_id for topic in client.call(ApiKey.CREATE_TOPICS, topics=topics).topics]


def delete(client: WireClient, *topics: tuple[str | None, UUID | None]) -> set[tuple[str | None, int]]:
    wanted = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
    return {(one.name, one.error_code) for one in client.call(ApiKey.DELETE_TOPICS, topics=wanted).responses}


def names(client: WireClient) -> list[str]:
    return [topic.name for topic in client.call(ApiKey.METADATA, topics=None).topics]


def test_described(client: WireClient) -> None:
    (topic_id,) = create(client, "t")
    answer = client.call(ApiKey.METADATA, topics=[{"name": None, "topic_id": topic_id}, {"name": "ignored"}])
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics] == [("t", topic_id, 0)]


def test_deleted(client: WireClient) -> None:
    ids = create(client, "a", "b", "c")
    assert delete(client, (None, ids[0]), ("b", None)) == {("a", 0), ("b", 0)}
    assert names(client) == ["c"]


def test_a_name_and_its_id_delete_nothing(client: WireClient) -> None:
    (topic_id,) = create(client, "t")
    assert delete(client, ("t", None), (None, topic_id)) == {("t", ErrorCode.INVALID_REQUEST)}
    assert names(client) == ["t"]


def test_a_new_topic_of_the_name_has_another_id(client: WireClient) -> None:
    (first,) = create(client, "t")
    delete(client, ("t", None))
    (second,) = create(client, "t")
    assert first != second
    assert delete(client, (None, first)) == {(None, ErrorCode.UNKNOWN_TOPIC_ID)}
    assert names(client) == ["t"]


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED), (6, ErrorCode.TOPIC_DELETION_DISABLED)],
)
def test_a_broker_that_deletes_none(tmp_path: Path, version: int, error: ErrorCode) -> None:
    with running_broker(tmp_path, delete_topic_enable="false") as home, home.client() as client:
        create(client, "t")
        wanted = {"topics": [{"name": "t"}]} if version == 6 else {"topic_names": ["t"]}
        answer = client.call(ApiKey.DELETE_TOPICS, version, **wanted)
        assert [(one.name, one.error_code) for one in answer.responses] == [("t", error)]
        assert names(client) == ["t"]


def test_settings_go_with_their_topic(home: BrokerHome, client: WireClient) -> None:
    configs = [{"name": "retention.ms", "value": "5"}]
    for settings in (configs, []):
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": settings}
        answer = client.call(ApiKey.CREATE_TOPICS, topics=[topic])
        values = {config.name: config.value for config in answer.topics[0].configs}
        assert values["retention.ms"] == ("5" if settings else "604800000")
        delete(client, ("t", None))
    assert home.call(lambda: home.broker.metadata.image.topics) == {}
