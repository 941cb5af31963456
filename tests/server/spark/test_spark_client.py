"""Spark's own Kafka source and sink, with batches and streams, against a ``tidelog serve`` process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from server.clients.adapters import Librdkafka, Sent
from server.lasting_server import LastingServer
from server.spark.spark_client import SparkClient
from spark.oldest_process import SparkError
from tidelog.testing.broker.loop_thread import PATIENCE_S

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2400)]
BEGIN_MS = 1_700_000_000_000
_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LastingServer]:
    with LastingServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def spark(server: LastingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkClient]:
    with SparkClient(tmp_path_factory.mktemp("spark"), server.bootstrap_servers) as running:
        yield running


@pytest.fixture
def topic(server: LastingServer) -> str:
    """Create a topic with two partitions."""
    return make_topic(server)


def make_topic(server: LastingServer) -> str:
    name = f"topic-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, 2, 1)]).values():
        future.result(PATIENCE_S)
    return name


def produce(server: LastingServer, topic: str, numbers: range) -> None:
    """Produce one record for each number, alternating between the two partitions."""
    sent = [Sent(b"%d" % number, b"%d" % number, partition=number % 2) for number in numbers]
    Librdkafka().produce(server.bootstrap_servers, topic, sent)


def numbers(spark: SparkClient, topic: str) -> list[int]:
    return sorted(int(row.value or "") for row in spark.read(topic))


def test_a_batch_that_spark_wrote_comes_back(spark: SparkClient, topic: str) -> None:
    headers = [["a", "1"], ["a", "2"], ["b", ""]]
    written: list[tuple[Any, ...]] = [
        (topic, 0, "key", "value", None),
        (topic, 1, None, "of no key", headers),
        (topic, 0, "tombstone", None, None),
        (topic, 1, "", "", [["c", "3"]]),
    ]
    spark.write(written)
    found = spark.read(topic)
    by_partition = {number: [row for row in found if row.partition == number] for number in (0, 1)}
    for number, rows in by_partition.items():
        assert [row.offset for row in rows] == [0, 1]
        wanted = [row[2:] for row in written if row[1] == number]
        assert {(row.key, row.value, json.dumps(row.headers)) for row in rows} == {
            (key, value, json.dumps(headers)) for key, value, headers in wanted
        }


def test_many_rows_find_their_partitions_by_key(spark: SparkClient, topic: str) -> None:
    spark.write([(topic, None, f"key {number % 20}", str(number), None) for number in range(2000)])
    found = spark.read(topic, minPartitions="4")
    assert sorted(int(row.value or "") for row in found) == list(range(2000))
    homes = {(row.key, row.partition) for row in found}
    assert len(homes) == 20
    assert {partition for _, partition in homes} == {0, 1}


def test_a_batch_reads_between_offsets_and_between_times(server: LastingServer, spark: SparkClient, topic: str) -> None:
    """Every partition has one record a second, numbered from 0."""
    sent = [
        Sent(b"%d" % second, timestamp=BEGIN_MS + second * 1000, partition=n) for second in range(20) for n in (0, 1)
    ]
    Librdkafka().produce(server.bootstrap_servers, topic, sent)

    def found(**options: str) -> list[list[int]]:
        rows = spark.read(topic, **options)
        assert all(row.timestamp == BEGIN_MS + row.offset * 1000 for row in rows)
        return [[row.offset for row in rows if row.partition == number] for number in (0, 1)]

    def of_both(first: int, second: int) -> str:
        return json.dumps({topic: {"0": first, "1": second}})

    assert found() == [[*range(20)]] * 2
    assert found(startingOffsets=of_both(15, -2), endingOffsets=of_both(-1, 3)) == [[*range(15, 20)], [*range(3)]]
    assert found(startingTimestamp=str(BEGIN_MS + 16_500)) == [[17, 18, 19]] * 2
    between = {
        "startingOffsetsByTimestamp": of_both(BEGIN_MS + 5000, BEGIN_MS),
        "endingOffsetsByTimestamp": of_both(BEGIN_MS + 7001, BEGIN_MS + 99_000),
    }
    assert found(**between) == [[5, 6, 7], [*range(20)]]
    late = {"startingTimestamp": str(BEGIN_MS + 99_000)}
    with pytest.raises(SparkError, match="No offset"):
        found(**late)
    assert found(**late, startingOffsetsByTimestampStrategy="latest") == [[], []]


def test_aborted_and_open_transactions_are_left_out(server: LastingServer, spark: SparkClient, topic: str) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    for number in range(9):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, b"%d" % number, partition=partition)
        producer.flush(PATIENCE_S)
        if number % 3 == 1:
            producer.abort_transaction(PATIENCE_S)
        elif number < 8:
            producer.commit_transaction(PATIENCE_S)
    committed = spark.read(topic, kafka_isolation_level="read_committed")
    assert [row.value for row in committed] == ["0", "2", "3", "5", "6"] * 2
    assert [row.value for row in spark.read(topic)] == [str(number) for number in range(9)] * 2
    producer.abort_transaction(PATIENCE_S)


def test_a_stream_goes_on_from_its_checkpoint(server: LastingServer, spark: SparkClient, topic: str) -> None:
    """The stream is stopped and the broker killed between the batches of a first and a second run."""
    copy = make_topic(server)
    produce(server, topic, range(100))
    spark.start_stream(topic, copy, maxOffsetsPerTrigger="40")
    assert spark.work_off() == 3
    spark.stop_stream()
    server.kill()
    server.start()
    produce(server, topic, range(100, 150))
    spark.start_stream(topic, copy, maxOffsetsPerTrigger="40")
    assert spark.work_off() == 2
    spark.stop_stream()
    assert numbers(spark, copy) == list(range(150))


def test_a_stream_outlives_its_broker(server: LastingServer, spark: SparkClient, topic: str) -> None:
    """The stream continues when the broker is back. No task has failed, so no row exists twice."""
    copy = make_topic(server)
    produce(server, topic, range(200))
    spark.start_stream(topic, copy, maxOffsetsPerTrigger="40")
    spark.wait_for_a_batch()
    server.kill()
    server.start()
    produce(server, topic, range(200, 220))
    server.stop()
    server.start()
    spark.work_off()
    spark.stop_stream()
    assert numbers(spark, copy) == list(range(220))
