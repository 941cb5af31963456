"""Real Kafka reads the records of tidelog's producers and transactions from a broker's directory, and continues."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

import tidelog
from real_kafka.broker import Broker
from real_kafka.conftest import BrokerFactory
from real_kafka.java import run_java
from real_kafka.tools import kafka_consume, kafka_dump_complaints, kafka_dump_log
from tidelog.storage.manager.producers.producer_sessions import FIRST_PRODUCER_ID

pytestmark = pytest.mark.kafka

TOPIC = "t"
Expected = dict[str, list[tuple[int, bytes]]]


def write(directory: Path) -> Expected:
    """Append in all ways, and return the committed records by partition."""
    with tidelog.open_directory(directory) as opened:
        logs = [opened.log(TOPIC, number) for number in range(2)]
        logs[0].append(b"plain")
        with opened.transaction() as committed:
            for log in logs:
                committed.append(log, b"committed")
                committed.append_batch(log, [b"a", b"b"])
        with suppress(KeyError), opened.transaction() as aborted:
            for log in logs:
                aborted.append_batch(log, [b"aborted", b"too"])
            logs[1].append(b"beside")
            raise KeyError
        producer = opened.producer()
        producer.append(logs[1], b"once")
        producer.append(logs[1], b"once", sequence=0)
        again = opened.producer(producer.producer_id)
        with again.transaction() as fenced:
            fenced.append(logs[0], b"of epoch 1")
    return {
        f"{TOPIC}-0": [(0, b"plain"), (1, b"committed"), (2, b"a"), (3, b"b"), (8, b"of epoch 1")],
        f"{TOPIC}-1": [(0, b"committed"), (1, b"a"), (2, b"b"), (6, b"beside"), (8, b"once")],
    }


def consumed(broker: Broker, isolation: str) -> Expected:
    partitions = kafka_consume(broker.bootstrap, [f"{TOPIC}-{number}" for number in range(2)], isolation=isolation)
    return {name: [(record[0], record[4] or b"") for record in records] for name, records in partitions.items()}


def produce(broker: Broker, transactional_id: str | None) -> None:
    """Produce to partition 0 with an idempotent librdkafka producer."""
    settings = {"bootstrap.servers": broker.bootstrap, "log_level": 2, "enable.idempotence": "true"}
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
    producer = Producer(settings)
    failed: list[object] = []
    if transactional_id is not None:
        producer.init_transactions(60)
        producer.begin_transaction()
    producer.produce(TOPIC, b"Kafka's", partition=0, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(60) == 0
    if transactional_id is not None:
        producer.commit_transaction(60)
    assert failed == [None]


@pytest.mark.parametrize("clean_stop", [True, False], ids=["clean-stop", "as-after-a-kill"])
def test_kafka_reads_transactions_and_goes_on(new_broker: BrokerFactory, clean_stop: bool) -> None:
    broker = new_broker()
    broker.start()
    broker.create_topic(TOPIC, partitions=2)
    broker.stop()
    expected = write(broker.directory)
    logs = sorted(broker.directory.glob(f"{TOPIC}-*/*.log"))
    text = kafka_dump_log(logs, "--print-data-log")
    headers = [line for line in text.splitlines() if line.startswith("baseOffset:")]
    assert all(line.endswith("isvalid: true") for line in headers)
    assert sum(f"producerId: {FIRST_PRODUCER_ID} " in line for line in headers) == 10
    assert text.count("endTxnMarker: COMMIT coordinatorEpoch: 0") == 3
    assert text.count("endTxnMarker: ABORT coordinatorEpoch: 0") == 2
    assert kafka_dump_complaints(logs, "--deep-iteration") == ""
    snapshots = [max((broker.directory / f"{TOPIC}-{number}").glob("*.snapshot")) for number in range(2)]
    states = kafka_dump_log(snapshots)
    assert states.count(f"producerId: {FIRST_PRODUCER_ID + 1} ") == 2
    assert f"producerId: {FIRST_PRODUCER_ID + 1} producerEpoch: 1" in states
    if not clean_stop:
        (broker.directory / ".kafka_cleanshutdown").unlink()

    broker.start()
    assert consumed(broker, "read_committed") == expected
    everything = consumed(broker, "read_uncommitted")
    assert [len(records) for records in everything.values()] == [7, 7]
    produce(broker, None)
    produce(broker, "kafka-goes-on")
    expected[f"{TOPIC}-0"] += [(10, b"Kafka's"), (11, b"Kafka's")]
    assert consumed(broker, "read_committed") == expected
    hanging = run_java(
        "org.apache.kafka.tools.TransactionsCommand",
        *("--bootstrap-server", broker.bootstrap, "find-hanging", "--topic", TOPIC, "--max-transaction-timeout", "0"),
    )
    assert len(hanging.splitlines()) <= 1
    broker.stop()
    with tidelog.open_directory(broker.directory) as opened:
        assert opened.producer(FIRST_PRODUCER_ID + 1).epoch == 2
        with opened.log(TOPIC, 0).transaction() as back:
            back.append(b"tidelog's again")
            assert back.producer_id == FIRST_PRODUCER_ID + 2
        values = [record.value for record in opened.log(TOPIC, 0).records(isolation="read_committed")]
        assert values == [*(value for _, value in expected[f"{TOPIC}-0"]), b"tidelog's again"]
