"""The tools that produce and consume: console, verifiable and performance tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from real_kafka.java import run_java
from real_kafka.kafka_tools import CLASSES, KafkaTools
from server.harness import BrokerHome

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_from_console_to_console(tools: KafkaTools, codec: str) -> None:
    topic, lines = f"console-{codec}", [f"key{number}\tvalue {number}" for number in range(20)]
    parsed = ("--reader-property", "parse.key=true", "--compression-codec", codec)
    tools.told("kafka-console-producer", "--topic", topic, *parsed, standard_input="\n".join(lines) + "\n")
    shown = (
        "--formatter-property",
        "print.key=true",
        "--from-beginning",
        "--max-messages",
        "20",
        "--timeout-ms",
        "60000",
    )
    assert tools.told("kafka-console-consumer", "--topic", topic, *shown)[:20] == lines


def test_performance(tools: KafkaTools) -> None:
    sizes = ("--num-records", "2000", "--record-size", "100", "--throughput", "-1")
    told = tools.told("kafka-producer-perf-test", "--topic", "measured", *sizes)
    assert told[-1].startswith("2000 records sent")
    *_, row = tools.told("kafka-consumer-perf-test", "--topic", "measured", "--messages", "2000", "--timeout", "60000")
    assert row.split(", ")[4] == "2000"


def test_a_transaction_at_a_time(tools: KafkaTools) -> None:
    sizes = ("--num-records", "300", "--record-size", "100", "--throughput", "-1")
    made = ("--transactional-id", "measured", "--transaction-duration-ms", "10")
    told = tools.told("kafka-producer-perf-test", "--topic", "transactional", *sizes, *made)
    assert told[-1].startswith("300 records sent")
    listed = [line.split() for line in tools.told("kafka-transactions", "list")]
    assert ["measured", "CompleteCommit"] in [[row[0], row[-1]] for row in listed]
    described = tools.told("kafka-transactions", "describe", "--transactional-id", "measured")
    assert "CompleteCommit" in described[-1]
    shown = (
        "--isolation-level",
        "read_committed",
        "--from-beginning",
        "--timeout-ms",
        "60000",
        "--max-messages",
        "300",
    )
    assert len(tools.told("kafka-console-consumer", "--topic", "transactional", *shown)) >= 300


# --- verifiable: these tools must exit to complete their output, so each has its own JVM ---


def events(tool: str, broker: BrokerHome, *arguments: str) -> list[dict[str, Any]]:
    lines = run_java(CLASSES[tool], "--bootstrap-server", broker.bootstrap, *arguments).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["CLASSIC", "CONSUMER"])
def test_verifiable(broker: BrokerHome, protocol: str) -> None:
    to = ("--topic", f"verifiable-{protocol}", "--max-messages", "50")
    produced = events("kafka-verifiable-producer", broker, *to, "--acks", "-1")
    assert [event["name"] for event in produced].count("producer_send_success") == 50
    group = ("--group-protocol", protocol, "--group-id", f"group-{protocol}", "--reset-policy", "earliest")
    consumed = events("kafka-verifiable-consumer", broker, *to, *group)
    assert sum(event["count"] for event in consumed if event["name"] == "records_consumed") == 50
    committed = [event for event in consumed if event["name"] == "offsets_committed"]
    assert all(event["success"] for event in committed)
    assert [offset["offset"] for offset in committed[-1]["offsets"]] == [50]
