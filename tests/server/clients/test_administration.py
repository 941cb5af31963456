"""Topics and settings are managed with the admin clients of librdkafka and kafka-python.

A change is visible at the broker that confirms it, and at the other brokers of a cluster a little later. So tests wait
with ``settle`` between a change and a test of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
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

from server.clients.adapters import Served
from tidelog.testing.broker.loop_thread import PATIENCE_S

Change = Callable[[Mapping[Any, Any]], Any]


@pytest.fixture
def admin(broker: Served) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


@pytest.fixture
def settle() -> Callable[[], None]:
    """Wait until all brokers know of the changes. A single broker knows of them at once."""
    return lambda: None


@pytest.fixture
def changed(settle: Callable[[], None]) -> Change:
    """Return the result of the only change, once all brokers know of it."""

    def settled(futures: Mapping[Any, Any]) -> Any:
        found = result(futures)
        settle()
        return found

    return settled


def result(futures: Mapping[Any, Any]) -> Any:
    """Return the result of the only request."""
    (future,) = futures.values()
    return future.result(PATIENCE_S)


def partitions(admin: AdminClient, topic: str) -> list[int]:
    return sorted(admin.list_topics(topic, PATIENCE_S).topics[topic].partitions)


def refusal(broker: Served, topic: str, value: bytes) -> int | None:
    """Return the code of the error of a record, or None if the record is accepted."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce(topic, value, b"key", on_delivery=lambda error, _message: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    (error,) = errors
    return None if error is None else error.code()


def test_a_topic_comes_grows_and_goes(admin: AdminClient, changed: Change) -> None:
    changed(admin.create_topics([NewTopic("grows", 2, config={"retention.ms": "1000"})]))
    assert partitions(admin, "grows") == [0, 1]
    with pytest.raises(KafkaException) as raised:
        result(admin.create_topics([NewTopic("grows", 2)]))
    assert raised.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    changed(admin.create_partitions([NewPartitions("grows", 5)]))
    assert partitions(admin, "grows") == [0, 1, 2, 3, 4]
    with pytest.raises(KafkaException) as raised:
        result(admin.create_partitions([NewPartitions("grows", 3)]))
    assert raised.value.args[0].code() == KafkaError.INVALID_PARTITIONS
    changed(admin.delete_topics(["grows"]))
    assert "grows" not in admin.list_topics(timeout=PATIENCE_S).topics
    with pytest.raises(KafkaException) as raised:
        changed(admin.delete_topics(["grows"]))
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_that_came_again_is_another_one(broker: Served, admin: AdminClient, changed: Change) -> None:
    ids = set()
    for _ in range(3):
        changed(admin.create_topics([NewTopic("again", 1)]))
        ids.add(str(result(admin.describe_topics(_topics("again"))).topic_id))
        assert broker.records("again") == []
        changed(admin.delete_topics(["again"]))
    assert len(ids) == 3


def test_settings_of_a_topic_are_described_and_altered(broker: Served, admin: AdminClient, changed: Change) -> None:
    changed(admin.create_topics([NewTopic("settings", 1, config={"retention.ms": "1000"})]))
    resource = ConfigResource(ResourceType.TOPIC, "settings")

    def value(key: str) -> str:
        return str(result(admin.describe_configs([resource]))[key].value)

    assert (value("retention.ms"), value("max.message.bytes")) == ("1000", "1048588")
    altered = ConfigResource(ResourceType.TOPIC, "settings")
    for key, new in {"retention.ms": "2000", "max.message.bytes": "500"}.items():
        altered.add_incremental_config(ConfigEntry(key, new, incremental_operation=AlterConfigOpType.SET))
    altered.add_incremental_config(
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND)
    )
    changed(admin.incremental_alter_configs([altered]))
    assert (value("retention.ms"), value("cleanup.policy")) == ("2000", "delete,compact")
    assert refusal(broker, "settings", bytes(1000)) == KafkaError.MSG_SIZE_TOO_LARGE
    assert refusal(broker, "settings", bytes(100)) is None
    wrong = ConfigResource(ResourceType.TOPIC, "settings")
    wrong.add_incremental_config(ConfigEntry("retention.ms", "x", incremental_operation=AlterConfigOpType.SET))
    with pytest.raises(KafkaException) as raised:
        result(admin.incremental_alter_configs([wrong]))
    assert raised.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_the_cluster_has_these_brokers(broker: Served, admin: AdminClient) -> None:
    """The client's controller is any broker, because each one forwards to the controller."""
    cluster = admin.describe_cluster().result(PATIENCE_S)
    servers = broker.bootstrap_servers.split(",")
    assert {f"{node.host}:{node.port}": node.id for node in cluster.nodes} == dict(zip(servers, count(1)))
    assert cluster.controller.id in {node.id for node in cluster.nodes}


def test_kafka_python_sees_what_librdkafka_made(
    broker: Served, admin: AdminClient, changed: Change, settle: Callable[[], None]
) -> None:
    changed(admin.create_topics([NewTopic("seen", 3)]))
    other = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        assert "seen" in other.list_topics()
        (described,) = other.describe_topics(["seen"])
        assert len(described["partitions"]) == 3
        other.delete_topics(["seen"])
        settle()
    finally:
        other.close()
    assert "seen" not in admin.list_topics(timeout=PATIENCE_S).topics


def _topics(*names: str) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection(list(names))
