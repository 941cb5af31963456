"""Kafka creates a topic, a stream writes to it while Kafka is stopped, and Kafka reads it and continues, twice."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from real_kafka.broker import Broker
from real_kafka.tools import kafka_consume, kafka_dump_complaints, kafka_dump_log
from spark.write_kills.driver import Driver
from spark.write_kills.home import PARTITIONS, TOPIC, Home, require_nothing_left

NAMES = [f"{TOPIC}-{number}" for number in range(PARTITIONS)]
TASK, COMMIT = ("worker", "staging"), ("commit", "renaming")


def produce(broker: Broker, values: Iterable[bytes]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    for value in values:
        producer.produce(TOPIC, value, value)
    assert producer.flush(60) == 0


def require_each_once_in_kafka(broker: Broker, home: Home) -> None:
    """Check the records with the Java client's consumer."""
    found = kafka_consume(broker.bootstrap, NAMES)
    for records in found.values():
        assert [record[0] for record in records] == list(range(len(records)))
    assert sorted(record[4] or b"" for records in found.values() for record in records) == sorted(home.expected)


def require_sound_to_kafka(logs: Path) -> None:
    """Check the files with Kafka's dump tool."""
    segments = sorted(path for name in NAMES for path in (logs / name).glob("*.log"))
    text = kafka_dump_log(segments, "--deep-iteration")
    batches = [line for line in text.splitlines() if line.startswith("baseOffset:")]
    assert len(batches) >= len(segments)
    assert all(line.endswith("isvalid: true") for line in batches)
    indexes = [segment.with_suffix(suffix) for segment in segments for suffix in (".index", ".timeindex")]
    assert kafka_dump_complaints(indexes, "--verify-index-only") == ""


@pytest.mark.kafka
def test_each_row_once(tmp_path: Path) -> None:
    with (
        Broker(tmp_path / "kafka", work=tmp_path / "work") as broker,
        Driver(tmp_path / "report") as driver,
    ):
        broker.format()
        broker.start()
        broker.create_topic(TOPIC, partitions=PARTITIONS)
        home = Home(tmp_path / "home", broker.directory)
        for turn, deaths in enumerate([(None, TASK, COMMIT), (None,)]):
            produced = [b"kafka-%d-%d" % (turn, number) for number in range(20)]
            produce(broker, produced)
            home.expected += produced
            broker.stop()
            for death in deaths:
                home.expect(home.new_rows("stream"))
                error = driver.run(home, "stream", death=death)
                assert (error is not None) == (death == COMMIT), error
                if error is not None:
                    assert driver.run(home, "stream") is None
            require_nothing_left(home.logs)
            broker.start()
            require_each_once_in_kafka(broker, home)
        broker.stop()
    require_sound_to_kafka(home.logs)
