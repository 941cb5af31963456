"""Topics that are created because a client asked for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.harness import BrokerHome, WireClient, running_broker
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.metadata.requests import NewTopic
from tidelog.server.start_settings import EMBEDDED_SETTINGS
from tidelog.server.topics.internal_topics import automatic_topic


def topic(client: WireClient, name: str, *, create: bool = True, version: int = 13) -> Struct:
    answer = client.call(ApiKey.METADATA, version, topics=[{"name": name}], allow_auto_topic_creation=create)
    found: Struct = answer.topics[0]
    return found


def test_it_is_there_when_it_is_asked_for_again(client: WireClient) -> None:
    first = topic(client, "new")
    assert (first.error_code, first.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())
    while (again := topic(client, "new")).error_code:
        assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(one.partition_index, one.leader_id, one.isr_nodes) for one in again.partitions] == [(0, 1, (1,))]
    assert again.topic_id is not None


def test_as_the_broker_says(tmp_path: Path) -> None:
    with running_broker(tmp_path, num_partitions="3") as home, home.client() as client:
        while topic(client, "new").error_code:
            pass
        assert len(topic(client, "new").partitions) == 3


@pytest.mark.parametrize("version", [0, 1, 3])
def test_clients_before_the_choice_want_it(client: WireClient, version: int) -> None:
    while topic(client, "new", version=version).error_code:
        pass


def test_not_where_the_client_does_not_want_it(home: BrokerHome, client: WireClient) -> None:
    assert topic(client, "new", create=False).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert home.call(lambda: home.broker.metadata.image.topics) == {}


def test_not_where_the_broker_does_not(tmp_path: Path) -> None:
    with running_broker(tmp_path, auto_create_topics_enable="false") as home, home.client() as client:
        assert topic(client, "new").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert home.call(lambda: home.broker.metadata.image.topics) == {}


def test_no_name_that_cannot_be(home: BrokerHome, client: WireClient) -> None:
    assert topic(client, "a b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert home.call(lambda: home.broker.metadata.image.topics) == {}


def test_what_cannot_be_made_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The name collides with that of another topic."""
    with running_broker(tmp_path) as home, home.client() as client:
        client.call(ApiKey.CREATE_TOPICS, topics=[{"name": "a.b", "num_partitions": 1, "replication_factor": 1}])
        for _ in range(2):
            logged = len(caplog.messages)
            topic(client, "a_b")
            while len(caplog.messages) == logged:
                topic(client, "other", create=False)
    assert "Cannot create topic a_b for a client: Topic 'a_b' collides with" in caplog.messages[-1]


def test_kafkas_own() -> None:
    config = BrokerConfig.load(None, EMBEDDED_SETTINGS | {"offsets.topic.num.partitions": "7"})
    assert automatic_topic("plain", config) == NewTopic(name="plain", partitions=1, replication_factor=1)
    assert automatic_topic("__consumer_offsets", config) == NewTopic(
        name="__consumer_offsets",
        partitions=7,
        replication_factor=1,
        configs={"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"},
    )
    assert automatic_topic("__transaction_state", config).configs == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }
    assert automatic_topic("__share_group_state", config).configs["retention.ms"] == "-1"
