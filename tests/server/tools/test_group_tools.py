"""kafka-consumer-groups, and kafka-configs for groups: lists, lags, resets, deletions."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from real_kafka.kafka_tools import KafkaTools
from server.harness import BrokerHome

pytestmark = pytest.mark.kafka

GROUPS = "kafka-consumer-groups"


@pytest.fixture(scope="module")
def group(tools: KafkaTools, broker: BrokerHome) -> str:
    """Commit offset 4 of 10 records in ``flights``-0, and no offset of ``flights``-1."""
    tools.told("kafka-topics", "--create", "--topic", "flights", "--partitions", "2")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce("flights", str(number), partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("flights", 0, 4)], asynchronous=False)
    consumer.close()
    return "readers"


def lags(tools: KafkaTools, group: str) -> dict[str, list[str]]:
    """Return committed offset, log end and lag by partition."""
    head, *rows = (
        line.split() for line in tools.told(GROUPS, "--describe", "--group", group) if "GROUP" in line or group in line
    )
    columns = [head.index(name) for name in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")]
    where = head.index("PARTITION")
    return {row[where]: [row[column] for column in columns] for row in rows if len(row) == len(head)}


def test_lists_and_lags(tools: KafkaTools, group: str) -> None:
    assert group in tools.told(GROUPS, "--list")
    assert lags(tools, group) == {"0": ["4", "10", "6"]}
    state = tools.told(GROUPS, "--describe", "--group", group, "--state")[-1].split()
    assert (state[0], "Empty" in state) == (group, True)
    assert "(Empty)" not in tools.told(GROUPS, "--describe", "--group", group, "--members")


def test_offsets_are_reset(tools: KafkaTools, group: str) -> None:
    reset = ("--reset-offsets", "--group", group, "--topic", "flights:0")
    planned = tools.told(GROUPS, *reset, "--to-earliest", "--dry-run")
    assert planned[-1].split() == [group, "flights", "0", "0"]
    assert lags(tools, group)["0"][0] == "4"
    tools.told(GROUPS, *reset, "--shift-by", "2", "--execute")
    assert lags(tools, group)["0"] == ["6", "10", "4"]
    tools.told(GROUPS, *reset, "--to-offset", "4", "--execute")


def test_groups_have_settings(tools: KafkaTools, group: str) -> None:
    where = ("--entity-type", "groups", "--entity-name", group)
    tools.told("kafka-configs", "--alter", *where, "--add-config", "consumer.session.timeout.ms=46000")
    told = tools.told("kafka-configs", "--describe", *where)
    assert told[1].startswith("consumer.session.timeout.ms=46000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:")
    refused = tools.run("kafka-configs", "--alter", *where, "--add-config", "consumer.session.timeout.ms=1")
    assert "must be in the range 45000 to 60000 inclusive." in refused.err


def test_a_group_and_its_offsets_are_deleted(tools: KafkaTools, broker: BrokerHome) -> None:
    tools.told("kafka-topics", "--create", "--topic", "rails")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "leavers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("rails", 0, 0)], asynchronous=False)
    consumer.close()
    told = tools.told(GROUPS, "--delete-offsets", "--group", "leavers", "--topic", "rails")
    assert told[-1].split() == ["rails", "0", "Successful"]
    tools.told(GROUPS, "--delete", "--group", "leavers")
    assert "leavers" not in tools.told(GROUPS, "--list")
