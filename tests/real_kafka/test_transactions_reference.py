"""Open and hanging transactions compared with Kafka's own tools on the same running broker.

The test makes a hanging transaction by removing its marker. It truncates the partition's log between two runs of the
broker, after the coordinator has completed the transaction.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Literal

import pytest
from confluent_kafka import Producer

import tidelog
from real_kafka.broker import PATIENCE_S, Broker
from real_kafka.conftest import BrokerFactory
from real_kafka.java import run_java
from tidelog.inspect.transaction_survey import JudgedTransaction, TransactionVerdict, survey_transactions
from tidelog.inspect.transactions import OpenTransaction, open_transactions
from tidelog.kernel import scan_batches
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.fs import LOCAL

pytestmark = pytest.mark.kafka

TOPIC = "t"


def transactions_tool(broker: Broker, *arguments: str) -> list[list[str]]:
    """Return the rows of a table that kafka-transactions.sh prints, without its head."""
    printed = run_java("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.bootstrap, *arguments)
    return [line.split() for line in printed.splitlines()[1:] if line.strip()]


def begin(broker: Broker, name: str, values: dict[int, int]) -> Producer:
    """Begin a transaction with ``values`` records in each partition, and leave it open."""
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 2}
    producer = Producer(settings)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for partition, count in values.items():
        for number in range(count):
            producer.produce(TOPIC, value=b"%d" % number, partition=partition)
        assert producer.flush(PATIENCE_S) == 0
    return producer


def plain(broker: Broker, partition: int, timestamps: list[int]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    for timestamp in timestamps:
        producer.produce(TOPIC, value=b"plain", partition=partition, timestamp=timestamp)
        assert producer.flush(PATIENCE_S) == 0


def ours(broker: Broker) -> list[OpenTransaction]:
    return [transaction for part in open_transactions(LOCAL, broker.directory) for transaction in part.open]


def judged(broker: Broker) -> list[JudgedTransaction]:
    now_ms = SYSTEM_CLOCK.now_ms()
    return list(survey_transactions(LOCAL, [broker.directory], ours(broker), now_ms=now_ms).transactions)


def listed(broker: Broker, time: str) -> dict[int, int]:
    """Return offsets by partition as kafka-get-offsets.sh prints them, without partitions that have none."""
    printed = run_java(
        "org.apache.kafka.tools.GetOffsetShell",
        *("--bootstrap-server", broker.bootstrap, "--topic", TOPIC, "--time", time),
    )
    rows = (line.split(":") for line in printed.splitlines())
    return {int(partition): int(offset) for _, partition, offset in rows if offset}


def cut_last_batch(log: Path) -> None:
    data = log.read_bytes()
    log.write_bytes(data[: int(scan_batches(data).position[-1])])


def test_what_kafkas_tools_say(new_broker: BrokerFactory) -> None:
    broker: Broker = new_broker()
    broker.start()
    broker.create_topic(TOPIC, partitions=3)
    now_ms = SYSTEM_CLOCK.now_ms()
    ended = begin(broker, "ended", {0: 3, 1: 2})
    ended.commit_transaction(PATIENCE_S)
    ended.begin_transaction()
    for _ in range(4):
        ended.produce(TOPIC, value=b"again", partition=0)
    assert ended.flush(PATIENCE_S) == 0
    kept = begin(broker, "kept", {0: 2, 1: 5})
    plain(broker, 0, [now_ms + 5000, now_ms + 9000, now_ms + 9000, now_ms + 1])

    # The broker runs. DescribeProducers returns the same, producer by producer.
    found = ours(broker)
    for partition in (0, 1, 2):
        described = transactions_tool(broker, "describe-producers", "--topic", TOPIC, "--partition", str(partition))
        theirs = {int(row[0]): (row[1], row[2], row[4], row[5]) for row in described if row[5] != "None"}
        assert {
            one.producer_id: (
                str(one.producer_epoch),
                str(-1 if one.coordinator_epoch is None else one.coordinator_epoch),
                str(one.last_timestamp),
                str(one.start_offset),
            )
            for one in found
            if one.partition.partition == partition
        } == theirs
    assert [(one.partition.partition, one.records) for one in found] == [(0, 4), (0, 2), (1, 5)]
    assert {one.judgement.verdict for one in judged(broker)} == {TransactionVerdict.OPEN}
    assert transactions_tool(broker, "find-hanging", "--topic", TOPIC, "--max-transaction-timeout", "0") == []

    logs = {number: tidelog.open_log(broker.directory / f"{TOPIC}-{number}", read_only=True) for number in range(3)}
    asked: list[tuple[int, Literal["log_end"] | None]] = [
        (-2, None),
        (-1, "log_end"),
        (-3, "log_end"),
        (-4, None),
        (now_ms + 5001, "log_end"),
    ]
    for spec, until in asked:
        answers = {number: log.list_offset(spec, until=until) for number, log in logs.items()}
        assert {number: one.offset for number, one in answers.items() if one is not None} == listed(broker, str(spec))

    broker.stop()
    del ended, kept


def test_one_that_hangs_for_certain(new_broker: BrokerFactory) -> None:
    broker: Broker = new_broker()
    broker.start()
    broker.create_topic(TOPIC, partitions=2)
    begin(broker, "lost", {0: 2, 1: 3}).commit_transaction(PATIENCE_S)
    for _ in range(20):  # the coordinator writes the end of a commit after its response
        if any("CompleteCommit" in row for row in transactions_tool(broker, "list")):
            break
    broker.stop()
    cut_last_batch(broker.directory / f"{TOPIC}-1" / f"{0:020d}.log")
    (broker.directory / ".kafka_cleanshutdown").unlink()
    with contextlib.suppress(FileNotFoundError):
        (broker.directory / f"{TOPIC}-1" / f"{4:020d}.snapshot").unlink()

    (one,) = judged(broker)
    assert (one.judgement.verdict, one.judgement.known.name if one.judgement.known else None) == (
        TransactionVerdict.HANGING,
        "lost",
    )
    broker.start()
    (beside,) = judged(broker)
    assert beside.judgement.verdict is TransactionVerdict.HANGING
    hanging = transactions_tool(broker, "find-hanging", "--topic", TOPIC, "--max-transaction-timeout", "0")
    assert [row[:6] for row in hanging] == [
        [
            TOPIC,
            "1",
            str(beside.transaction.producer_id),
            str(beside.transaction.producer_epoch),
            "-1",
            str(beside.transaction.start_offset),
        ]
    ]
    # Follow the advice in the notes of `tidelog transactions`.
    start = str(beside.transaction.start_offset)
    transactions_tool(broker, "abort", "--topic", TOPIC, "--partition", "1", "--start-offset", start)
    assert judged(broker) == []
    broker.stop()
