"""Changes of everything that a cluster on ZooKeeper keeps in znodes, by Kafka's admin clients and tools.

``change_everything`` expects the cluster of ``write_everything``. ``name`` and ``step`` are different ones each time.
So no change is a no-op, for which Kafka writes znodes and tidelog does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from real_kafka.broker import PATIENCE_S, BrokerError
from real_kafka.kafka_tools import KafkaTools

_RECORDS: Final = 30
_TOPIC: Final = ConfigResource.Type.TOPIC


def change_everything(bootstrap: str, name: str, step: int, node_id: int) -> list[str]:
    """Make changes of every kind, and return the names of the new topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    settings = {"cleanup.policy": "compact,delete", "max.message.bytes": "3000000", "retention.ms": "777777777"}
    create(admin, NewTopic(name, 3, 1, config=settings))
    create(admin, NewTopic(f"{name}-short-lived", 2, 1))
    delete(admin, f"{name}-short-lived")
    partitions = len(admin.list_topics("empty", timeout=PATIENCE_S).topics["empty"].partitions) + 2
    admin.create_partitions([NewPartitions("empty", partitions)])["empty"].result(PATIENCE_S)
    await_partitions(admin, "empty", partitions)
    alter_topic(admin, "customers", {"retention.ms": str(10**9 + step), "min.cleanable.dirty.ratio": None})
    alter_topic(admin, name, {"retention.ms": "888888888"})
    with KafkaTools(bootstrap) as tools:
        _change_entities(tools, name, step, node_id)
    _write(bootstrap, name)
    return [name]


def create(admin: AdminClient, topic: NewTopic) -> None:
    """Create a topic and return when its partitions have leaders."""
    admin.create_topics([topic])[topic.topic].result(PATIENCE_S)
    await_partitions(admin, topic.topic, topic.num_partitions)


def delete(admin: AdminClient, topic: str) -> None:
    """Delete a topic and return when it is gone."""
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    _await(f"{topic} is gone", lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics)


def await_partitions(admin: AdminClient, topic: str, count: int) -> None:
    """Return when a topic has so many partitions, and each has a leader."""

    def are_led() -> bool:
        found = admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions.values()
        return len(found) == count and all(one.leader >= 0 for one in found)

    _await(f"{topic} has {count} partitions with leaders", are_led)


def alter_topic(admin: AdminClient, topic: str, settings: dict[str, str | None]) -> None:
    """Change settings of a topic; None deletes one."""
    entries = [
        ConfigEntry(
            key,
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in settings.items()
    ]
    resource = ConfigResource(_TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)


def _change_entities(tools: KafkaTools, name: str, step: int, node_id: int) -> None:
    """Change users, quotas, settings of brokers and ACLs."""

    def alter(*words: str) -> None:
        tools.told("kafka-configs", "--alter", *words)

    user = ("--entity-type", "users", "--entity-name")
    alter(*user, name, "--add-config", "SCRAM-SHA-256=[iterations=5000,password=x]")
    alter(*user, name, "--add-config", "producer_byte_rate=5000,consumer_byte_rate=6000")
    alter(*user, "bob smith@x*y~z", "--add-config", "SCRAM-SHA-512=[iterations=6000,password=bob-secret]")
    alter(*user, "alice", "--add-config", f"consumer_byte_rate={345678 + step}")
    alter(*user, name, "--entity-type", "clients", "--entity-name", name, "--add-config", "request_percentage=50")
    alter(*user, name, "--delete-config", "producer_byte_rate")
    alter("--entity-type", "clients", "--entity-name", name, "--add-config", "producer_byte_rate=4321")
    alter("--entity-type", "clients", "--entity-name", name, "--delete-config", "producer_byte_rate")
    brokers = ("--entity-type", "brokers")
    alter(*brokers, "--entity-name", str(node_id), "--add-config", f"log.cleaner.threads={2 - step % 2}")
    alter(*brokers, "--entity-default", "--add-config", f"log.retention.ms={900_000_000 + step}")
    read = ("--allow-principal", f"User:{name}", "--operation", "Read")
    tools.told("kafka-acls", "--add", *read, "--topic", "orders")
    tools.told("kafka-acls", "--add", *read, "--topic", name)
    tools.told("kafka-acls", "--remove", "--force", *read, "--topic", name)
    tools.told("kafka-acls", "--add", *read, "--group", name, "--resource-pattern-type", "prefixed")


def _write(bootstrap: str, name: str) -> None:
    """Write idempotent records, a transaction, and the offset of a group."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(_RECORDS):
        producer.produce(name, b"%d" % number, b"key %d" % number, partition=number % 3)
        producer.produce("orders", b"%s %d" % (name.encode(), number), partition=number % 20)
    assert producer.flush(PATIENCE_S) == 0
    writer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer"})
    writer.init_transactions(PATIENCE_S)
    for is_committed in (True, False):
        writer.begin_transaction()
        writer.produce("with.dots_and-dashes", f"{name} {is_committed}".encode(), partition=1)
        writer.flush(PATIENCE_S)
        if is_committed:
            writer.commit_transaction(PATIENCE_S)
        else:
            writer.abort_transaction(PATIENCE_S)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[KafkaPartition("orders", 2, 2)], asynchronous=False)
    consumer.close()


def _await(condition: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if is_so():
                return
        except (KafkaException, KeyError):
            pass  # the metadata of the broker does not have it yet
        if time.monotonic() > deadline:
            raise BrokerError(f"not within {PATIENCE_S} s: {condition}")
        time.sleep(0.05)
