"""Kafka's tools for topics, offsets, log directories, leaders and reassignments work with our broker.

They are kafka-topics, kafka-get-offsets, kafka-delete-records, kafka-log-dirs, kafka-leader-election and
kafka-reassign-partitions.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from real_kafka.kafka_tools import KafkaTools
from server.harness import BrokerHome

pytestmark = pytest.mark.kafka


def create(tools: KafkaTools, topic: str, *arguments: str) -> None:
    assert tools.told("kafka-topics", "--create", "--topic", topic, *arguments) == [f"Created topic {topic}."]


def produce(broker: BrokerHome, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(topic, f"value {number}".encode(), partition=partition)
    assert producer.flush(60) == 0


def test_a_topic_from_its_making_to_its_end(tools: KafkaTools) -> None:
    create(tools, "life", "--partitions", "3", "--config", "retention.ms=5000")
    assert "life" in tools.told("kafka-topics", "--list")
    head, *partitions = tools.told("kafka-topics", "--describe", "--topic", "life")
    assert "PartitionCount: 3\tReplicationFactor: 1\tConfigs: min.insync.replicas=1,retention.ms=5000" in head
    assert [line.split("\t")[:5] for line in partitions] == [
        ["Topic: life", f"Partition: {number}", "Leader: 1", "Replicas: 1", "Isr: 1"] for number in range(3)
    ]
    tools.told("kafka-topics", "--alter", "--topic", "life", "--partitions", "5")
    assert len(tools.told("kafka-topics", "--describe", "--topic", "life")) == 6
    tools.told("kafka-topics", "--delete", "--topic", "life")
    assert "life" not in tools.told("kafka-topics", "--list")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--create", "--topic", "there"), "Topic 'there' already exists."),
        (("--create", "--topic", "x", "--replication-factor", "3"), "Unable to replicate the partition 3 time(s)"),
        (("--create", "--topic", "x", "--config", "segment.bytes=1"), "Value must be at least 1048576"),
        (("--create", "--topic", "x", "--replica-assignment", "7"), "no such broker is registered"),
        (("--alter", "--topic", "there", "--partitions", "1"), "Topic already has 1 partition(s)."),
    ],
)
def test_what_is_refused(tools: KafkaTools, arguments: tuple[str, ...], message: str) -> None:
    tools.run("kafka-topics", "--create", "--topic", "there")
    refused = tools.run("kafka-topics", *arguments)
    assert refused.code == 1
    assert message in refused.out


def test_health(tools: KafkaTools) -> None:
    for state in ("unavailable", "under-replicated", "under-min-isr", "at-min-isr"):
        told = tools.told("kafka-topics", "--describe", f"--{state}-partitions")
        assert (told == []) == (state != "at-min-isr")


def test_offsets_before_and_after_records_are_deleted(tools: KafkaTools, broker: BrokerHome, tmp_path: Path) -> None:
    create(tools, "offsets", "--partitions", "2")
    produce(broker, "offsets", 10)
    assert tools.told("kafka-get-offsets", "--topic", "offsets") == ["offsets:0:10", "offsets:1:0"]
    file = tmp_path / "delete.json"
    file.write_text(json.dumps({"partitions": [{"topic": "offsets", "partition": 0, "offset": 4}], "version": 1}))
    told = tools.told("kafka-delete-records", "--offset-json-file", str(file))
    assert told[-1] == "partition: offsets-0\tlow_watermark: 4"
    assert tools.told("kafka-get-offsets", "--topic", "offsets", "--time", "earliest")[0] == "offsets:0:4"
    assert tools.told("kafka-get-offsets", "--topic", "offsets", "--time", "max-timestamp")[0].startswith("offsets:0:")


def test_log_directories(tools: KafkaTools, broker: BrokerHome) -> None:
    create(tools, "sizes")
    produce(broker, "sizes", 3)
    *_, text = tools.told("kafka-log-dirs", "--describe", "--topic-list", "sizes")
    (directory,) = json.loads(text)["brokers"][0]["logDirs"]
    assert directory["logDir"] == str(broker.directory)
    (partition,) = directory["partitions"]
    assert (partition["partition"], partition["offsetLag"], partition["isFuture"]) == ("sizes-0", 0, False)
    assert broker.directory is not None
    assert partition["size"] == sum(file.stat().st_size for file in broker.directory.glob("sizes-0/*.log"))


def test_leaders_are_where_they_should_be(tools: KafkaTools, tmp_path: Path) -> None:
    create(tools, "led")
    told = tools.told("kafka-leader-election", "--election-type", "preferred", "--topic", "led", "--partition", "0")
    assert told == ["Valid replica already elected for partitions led-0"]
    file = tmp_path / "move.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "led", "partition": 0, "replicas": [1]}]}))
    where = ("--reassignment-json-file", str(file))
    told = tools.told("kafka-reassign-partitions", *where, "--execute")
    assert "Successfully started partition reassignment for led-0" in told
    told = tools.told("kafka-reassign-partitions", *where, "--verify")
    assert "Reassignment of partition led-0 is completed." in told
    assert tools.told("kafka-reassign-partitions", "--list") == ["No partition reassignments found."]
