"""Transactions with common clients: librdkafka's producer and consumer, and Kafka's own tools.

``run_worker`` is exactly-once consume-transform-produce: it commits the input's offsets with the output. A worker dies
in the middle of every third transaction, and another one with the same transactional id follows.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Message, Producer

from real_kafka.java import java_command
from server.harness import BrokerHome, running_broker
from server.transactions.librdkafka import SINGLE_NODE, committed, polled, reader, transactional
from tidelog.server.metadata.requests import NewTopic
from tidelog.testing.broker.loop_thread import PATIENCE_S

INPUT, OUTPUT = "input", "output"
BATCH = 25


@pytest.fixture
def home(tmp_path: Path) -> Iterator[BrokerHome]:
    with running_broker(tmp_path, **SINGLE_NODE) as running:
        topics = [NewTopic(name=name, partitions=1, replication_factor=1) for name in (INPUT, OUTPUT)]
        running.run(lambda: running.broker.controller.create_topics(topics))
        yield running


def test_what_librdkafka_commits_is_read_and_what_it_aborts_is_not(home: BrokerHome) -> None:
    producer = transactional(home.bootstrap)
    for number in range(9):
        producer.begin_transaction()
        for part in range(3):
            producer.produce(OUTPUT, f"{number}.{part}".encode())
        if number % 3 == 2:
            producer.flush(PATIENCE_S)
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    expected = [f"{number}.{part}".encode() for number in range(9) if number % 3 != 2 for part in range(3)]
    assert committed(home.bootstrap, OUTPUT) == expected


def test_a_second_producer_fences_the_first(home: BrokerHome) -> None:
    first = transactional(home.bootstrap)
    first.begin_transaction()
    first.produce(OUTPUT, b"lost")
    first.flush(PATIENCE_S)
    second = transactional(home.bootstrap)
    with pytest.raises(KafkaException, match="fenced"):
        first.commit_transaction(PATIENCE_S)
    second.begin_transaction()
    second.produce(OUTPUT, b"kept")
    second.commit_transaction(PATIENCE_S)
    assert committed(home.bootstrap, OUTPUT) == [b"kept"]


def test_a_transaction_outlives_the_broker(home: BrokerHome) -> None:
    producer = transactional(home.bootstrap)
    producer.begin_transaction()
    producer.produce(OUTPUT, b"before")
    producer.flush(PATIENCE_S)
    home.restart()
    producer.produce(OUTPUT, b"after")
    producer.commit_transaction(PATIENCE_S)
    assert committed(home.bootstrap, OUTPUT) == [b"before", b"after"]


def run_worker(home: BrokerHome, *, dies: bool) -> bool:
    """Process one batch from the input to the output. Return False at the end of the input."""
    producer, consumer = transactional(home.bootstrap), reader(home.bootstrap, "workers")
    consumer.subscribe([INPUT])
    taken: list[Message] = []
    while len(taken) < BATCH and (message := polled(consumer)) is not None:
        taken.append(message)
    producer.begin_transaction()
    for message in taken:
        producer.produce(OUTPUT, (message.value() or b"").upper())
    if dies:
        producer.flush(PATIENCE_S)
    elif taken:
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE_S)
        producer.commit_transaction(PATIENCE_S)
    consumer.close()
    return bool(taken)


def test_consume_transform_produce_exactly_once(home: BrokerHome) -> None:
    values = [f"value {number}".encode() for number in range(6 * BATCH)]
    source = Producer({"bootstrap.servers": home.bootstrap})
    for value in values:
        source.produce(INPUT, value)
    source.flush(PATIENCE_S)
    life = 0
    while run_worker(home, dies=life % 3 == 2):
        life += 1
    assert life > 6
    assert committed(home.bootstrap, OUTPUT) == [value.upper() for value in values]


def tool(name: str, *arguments: str) -> str:
    """Return the output of one of Kafka's tools."""
    command = java_command(f"org.apache.kafka.tools.{name}", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S * 2, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.kafka
def test_kafkas_own_producer_and_tool_of_transactions(home: BrokerHome) -> None:
    """The tool uses transactions of version 2: each one has a new epoch."""
    sent = tool(
        "ProducerPerformance",
        *("--topic", OUTPUT, "--num-records", "2000", "--record-size", "10", "--throughput", "-1"),
        *("--transactional-id", "perf", "--transaction-duration-ms", "20"),
        *("--producer-props", f"bootstrap.servers={home.bootstrap}"),
    )
    assert "2000 records sent" in sent
    assert len(committed(home.bootstrap, OUTPUT)) == 2000
    listed = tool("TransactionsCommand", "--bootstrap-server", home.bootstrap, "list")
    assert listed.split("\n")[1].split()[0] == "perf"
    described = tool(
        "TransactionsCommand", "--bootstrap-server", home.bootstrap, "describe", "--transactional-id", "perf"
    )
    row = dict(zip(*(line.split("\t") for line in described.split("\n")[:2]), strict=True))
    assert row["TransactionState"].strip() == "CompleteCommit"
    assert int(row["ProducerEpoch"]) >= 1
