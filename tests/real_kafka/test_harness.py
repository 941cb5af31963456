"""The harness for brokers: a broker formats, starts, serves, shuts down cleanly, dies, and recovers."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from real_kafka.broker import BrokerError
from real_kafka.broker_runs import BrokerRuns
from real_kafka.conftest import BrokerFactory
from real_kafka.tools import kafka_consume, kafka_dump_log

pytestmark = pytest.mark.kafka


def test_a_broker_serves_stops_and_recovers(new_broker: BrokerFactory, tmp_path: Path) -> None:
    broker = new_broker()
    broker.start()
    broker.create_topic("t", partitions=2, config={"internal.segment.bytes": "16384"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    for number in range(300):
        producer.produce("t", value=b"%0100d" % number, headers=[("h", b"1"), ("none", None)], partition=0)
        assert producer.flush(60) == 0
    records = kafka_consume(broker.bootstrap, ["t-0", "t-1"])
    assert [record[0] for record in records["t-0"]] == list(range(300))
    assert records["t-0"][7][3:] == (None, b"%0100d" % 7, (("h", b"1"), ("none", None)))
    assert records["t-1"] == []

    broker.kill()
    marker = broker.directory / ".kafka_cleanshutdown"
    assert not marker.exists()
    with BrokerRuns(tmp_path) as runs:
        runs.recover(broker.directory, work=tmp_path / "recover")
    assert marker.exists()
    logs = sorted((broker.directory / "t-0").glob("*.log"))
    assert len(logs) > 1
    text = kafka_dump_log(logs, "--deep-iteration")
    assert text.count("isvalid: true") == 300


def test_a_broker_that_cannot_start_says_why(new_broker: BrokerFactory) -> None:
    broker = new_broker(properties={"log.segment.bytes": "-1"})
    with pytest.raises(BrokerError, match=r"log\.segment\.bytes"):
        broker.start()
