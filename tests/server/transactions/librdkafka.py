"""librdkafka's transactional producer and consumer for tests with complete brokers."""

from __future__ import annotations

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tidelog.testing.broker.loop_thread import PATIENCE_S

SINGLE_NODE = {
    "offsets_topic_replication_factor": "1",
    "offsets_topic_num_partitions": "2",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "transaction_state_log_num_partitions": "2",
    "group_initial_rebalance_delay_ms": "0",
}

STAYS = {"metadata.recovery.strategy": "none", "reconnect.backoff.max.ms": "200"}
"""A client that finds no broker keeps its known ones. librdkafka's default is to forget them and to start again. A
request to a forgotten broker then hangs, for example offsets on their way to a group's coordinator."""


def transactional(bootstrap: str, name: str = "worker") -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **STAYS})
    producer.init_transactions(PATIENCE_S)
    return producer


def reader(bootstrap: str, group: str = "readers") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **STAYS,
        }
    )


def polled(consumer: Consumer) -> Message | None:
    """Return the next message, or None at the end of the partition."""
    message = consumer.poll(PATIENCE_S)
    assert message is not None, "nothing came"
    return message if message.error() is None else None


def committed(bootstrap: str, topic: str) -> list[bytes]:
    """Return everything that a read_committed reader finds in a topic with one partition."""
    consumer = reader(bootstrap)
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while (message := polled(consumer)) is not None:
        values.append(message.value() or b"")
    consumer.close()
    return values
