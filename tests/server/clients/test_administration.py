"""Topics and settings are managed with the admin clients of librdkafka and kafka-python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka.admin import KafkaAdminClient

from tidelog.testing import Broker
from tidelog.testing.broker.loop_thread import PATIENCE_S


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def result(futures: Mapping[Any, Any]) -> Any:
    """Return the result of the only request."""
    (future,) = futures.values()
    return future.result(PATIENCE_S)


def partitions(admin: AdminClient, topic: str) -> list[int]:
    return sorted(admin.list_topics(topic, PATIENCE_S).topics[topic].partitions)


def test_a_topic_comes_grows_and_goes(admin: AdminClient) -> None:
    result(admin.create_topics([NewTopic("grows", 2, 1, config={"retention.ms": "1000"})]))
    assert partitions(admin, "grows") == [0, 1]
    with pytest.raises(KafkaException) as raised:
        result(admin.create_topics([NewTopic("grows", 2, 1)]))
    assert raised.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    result(admin.create_partitions([NewPartitions("grows", 5)]))
    assert partitions(admin, "grows") == [0, 1, 2, 3, 4]
    with pytest.raises(KafkaException) as raised:
        result(admin.create_partitions([NewPartitions("grows", 3)]))
    assert raised.value.args[0].code() == KafkaError.INVALID_PARTITIONS
    result(admin.delete_topics(["grows"]))
    assert "grows" not in admin.list_topics(timeout=PATIENCE_S).topics
    with pytest.raises(KafkaException) as raised:
        result(admin.delete_topics(["grows"]))
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_that_came_again_is_another_one(broker: Broker, admin: AdminClient) -> None:
    ids = set()
    for _ in range(3):
        result(admin.create_topics([NewTopic("again", 1, 1)]))
        ids.add(str(result(admin.describe_topics(_topics("again"))).topic_id))
        assert broker.records("again") == []
        result(admin.delete_topics(["again"]))
    assert len(ids) == 3


def test_settings_of_a_topic_are_described_and_altered(broker: Broker, admin: AdminClient) -> None:
    result(admin.create_topics([NewTopic("settings", 1, 1, config={"retention.ms": "1000"})]))
    resource = ConfigResource(ResourceType.TOPIC, "settings")

    def value(key: str) -> str:
        return str(result(admin.describe_configs([resource]))[key].value)

    assert (value("retention.ms"), value("max.message.bytes")) == ("1000", "1048588")
    altered = ConfigResource(ResourceType.TOPIC, "settings")
    altered.add_incremental_config(ConfigEntry("retention.ms", "2000", incremental_operation=AlterConfigOpType.SET))
    altered.add_incremental_config(
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    )
    result(admin.incremental_alter_configs([altered]))
    assert (value("retention.ms"), value("cleanup.policy")) == ("2000", "delete,compact")
    assert broker.call(lambda: broker.server.logs.config_of("settings").retention_ms) == 2000
    wrong = ConfigResource(ResourceType.TOPIC, "settings")
    wrong.add_incremental_config(ConfigEntry("retention.ms", "x", incremental_operation=AlterConfigOpType.SET))
    with pytest.raises(KafkaException) as raised:
        result(admin.incremental_alter_configs([wrong]))
    assert raised.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_the_cluster_is_this_broker(broker: Broker, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(PATIENCE_S)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [broker.bootstrap_servers]
    assert cluster.controller.id == cluster.nodes[0].id == 1


def test_kafka_python_sees_what_librdkafka_made(broker: Broker, admin: AdminClient) -> None:
    result(admin.create_topics([NewTopic("seen", 3, 1)]))
    other = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        assert "seen" in other.list_topics()
        (described,) = other.describe_topics(["seen"])
        assert len(described["partitions"]) == 3
        other.delete_topics(["seen"])
    finally:
        other.close()
    assert "seen" not in admin.list_topics(timeout=PATIENCE_S).topics


def _topics(*names: str) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection(list(names))
