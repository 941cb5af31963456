"""Real Kafka opens tidelog's logs: a consumer reads every record back, and kafka-dump-log finds no error.

A broker creates the topics and stops. The partition directories are replaced by directories that tidelog wrote, except
partition.metadata, which holds the topic id. Then the broker starts again.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

import tidelog
from real_kafka.conftest import BrokerFactory
from real_kafka.tools import ConsumedRecord, kafka_consume, kafka_dump_complaints, kafka_dump_log
from tidelog.storage.log.state.log_config import LogConfig

pytestmark = pytest.mark.kafka

CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
RECORDS = 4000
SEGMENT_BYTES = 100_000
FIRST_TIMESTAMP_MS = 1_700_000_000_000

Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
"""The value, key, headers and timestamp."""


def rows(seed: str) -> list[Row]:
    """Make records of all shapes: nulls, empty and large values, headers with or without values, unsorted times."""
    source = random.Random(seed)
    return [
        (
            _value(source),
            None if source.random() < 0.2 else b"key-%d" % source.randrange(100),
            tuple(
                (f"näme-{place}", source.choice([None, b"", b"\x00\xff", b"value"]))
                for place in range(source.choice([0, 0, 0, 1, 3]))
            ),
            FIRST_TIMESTAMP_MS + number + source.randrange(-500, 500),
        )
        for number in range(RECORDS)
    ]


def _value(source: random.Random) -> bytes | None:
    if source.random() < 0.1:
        return source.choice([None, b"", b"x"])
    return source.randbytes(source.randrange(20, 400)).hex().encode()


def write(directory: Path, codec: str, records: list[Row]) -> None:
    """Append some records singly and most in batches of many sizes. The log is closed and reopened in the middle."""
    config = LogConfig(segment_bytes=SEGMENT_BYTES, compression_type=codec, index_interval_bytes=1024)
    middle = len(records) // 2
    for part in (records[:middle], records[middle:]):
        with tidelog.open_log(directory, config=config) as log:
            singly, rest = part[:50], part[50:]
            for value, key, headers, timestamp in singly:
                log.append(value, key, headers, timestamp)
            for first in range(0, len(rest), 333):
                piece = rest[first : first + 333]
                log.append_batch(
                    [row[0] for row in piece],
                    keys=[row[1] for row in piece],
                    headers=[row[2] for row in piece],
                    timestamps=[row[3] for row in piece],
                )
            log.flush()


def expected(records: list[Row]) -> list[ConsumedRecord]:
    return [
        (offset, 1, timestamp, key, value, headers) for offset, (value, key, headers, timestamp) in enumerate(records)
    ]


def librdkafka_consume(bootstrap: str, topic: str, count: int) -> list[ConsumedRecord]:
    """Read the first ``count`` records of partition 0 with a librdkafka consumer that checks CRCs."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "check.crcs": True, "log_level": 2})
    try:
        consumer.assign([KafkaPartition(topic, 0, 0)])
        consumed: list[ConsumedRecord] = []
        while len(consumed) < count:
            messages = consumer.consume(count - len(consumed), timeout=60)
            assert messages, f"only {len(consumed)} of {count} records"
            for message in messages:
                assert message.error() is None
                kind, timestamp = message.timestamp()
                headers = message.headers() or []
                assert isinstance(headers, list)
                offset = message.offset()
                assert offset is not None
                consumed.append((offset, kind, timestamp, message.key(), message.value(), tuple(headers)))
        return consumed
    finally:
        consumer.close()


def produce(bootstrap: str, topic: str, records: list[Row]) -> None:
    """Produce to partition 0 with librdkafka, in batches that fit a segment. Return when all are acknowledged."""
    failed: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "log_level": 2, "compression.type": "lz4", "batch.size": SEGMENT_BYTES // 2}
    )
    for value, key, headers, timestamp in records:
        producer.produce(
            topic,
            value,
            key,
            0,
            timestamp=timestamp,
            headers=list(headers),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not failed


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a log directory with a partition CODEC-0 of several segments for each codec."""
    directory = tmp_path_factory.mktemp("written")
    for codec in CODECS:
        write(directory / f"{codec}-0", codec, rows(codec))
        assert len(list((directory / f"{codec}-0").glob("*.log"))) > 2
    return directory


def test_kafka_dump_log_finds_nothing_wrong(written: Path) -> None:
    """Every batch is valid, and every index entry agrees with its log."""
    logs = sorted(written.glob("*/*.log"))
    text = kafka_dump_log(logs, "--deep-iteration")
    batches = [line for line in text.splitlines() if line.startswith("baseOffset:")]
    assert len(batches) > len(logs)
    assert all(line.endswith("isvalid: true") for line in batches)
    assert text.count("\n| offset: ") == RECORDS * len(CODECS)
    assert {line.split("compresscodec: ")[1].split()[0] for line in batches} == {"none", *CODECS[1:]}

    # From 4.3 on the tool counts from -1 in each file, so it names every file that does not begin at offset 0.
    said = kafka_dump_complaints(logs, "--deep-iteration").splitlines()
    assert dict(zip(said[::2], said[1::2], strict=True)) == {
        f"Non-consecutive offsets in {log}": f"  -1 is followed by {int(log.stem)}" for log in logs if int(log.stem)
    }

    indexes = sorted([*written.glob("*/*.index"), *written.glob("*/*.timeindex")])
    assert kafka_dump_log(indexes, "--index-sanity-check").count("passed sanity check.") == len(indexes)
    assert kafka_dump_complaints(indexes, "--verify-index-only") == ""


def test_kafka_dump_log_would_complain(written: Path, tmp_path: Path) -> None:
    """The check above detects a wrong position in an index."""
    shutil.copytree(written / "zstd-0", tmp_path / "zstd-0")
    index = min((tmp_path / "zstd-0").glob("*.index"))
    entries = bytearray(index.read_bytes())
    entries[7] ^= 1
    index.write_bytes(entries)
    with pytest.raises(subprocess.CalledProcessError):
        kafka_dump_complaints([index], "--verify-index-only")


@pytest.mark.parametrize("clean_stop", [True, False], ids=["clean-stop", "as-after-a-kill"])
def test_kafka_opens_what_tidelog_wrote(new_broker: BrokerFactory, written: Path, clean_stop: bool) -> None:
    """Kafka trusts our indexes after a clean shutdown, and recovers our segments after an unclean one."""
    broker = new_broker()
    broker.start()
    for codec in CODECS:
        broker.create_topic(codec, config={"internal.segment.bytes": str(SEGMENT_BYTES)})
    broker.stop()
    if not clean_stop:
        (broker.directory / ".kafka_cleanshutdown").unlink()
    for codec in CODECS:
        theirs = broker.directory / f"{codec}-0"
        identity = (theirs / "partition.metadata").read_bytes()
        shutil.rmtree(theirs)
        shutil.copytree(written / theirs.name, theirs)
        (theirs / "partition.metadata").write_bytes(identity)

    broker.start()
    consumed = kafka_consume(broker.bootstrap, [f"{codec}-0" for codec in CODECS])
    for codec in CODECS:
        assert consumed[f"{codec}-0"] == expected(rows(codec))
        assert librdkafka_consume(broker.bootstrap, codec, RECORDS) == expected(rows(codec))
        produce(broker.bootstrap, codec, [(b"Kafka goes on", None, (), FIRST_TIMESTAMP_MS)])
    broker.stop()
    for codec in CODECS:
        with tidelog.open_log(broker.directory / f"{codec}-0", read_only=True) as log:
            (last,) = log.records(start=RECORDS)
            assert (last.offset, last.value) == (RECORDS, b"Kafka goes on")


def test_tidelog_goes_on_where_kafka_stopped(new_broker: BrokerFactory) -> None:
    """tidelog and Kafka append in turns to the broker's own directory, twice each, and read all records."""
    broker = new_broker()
    broker.start()
    broker.create_topic("t", config={"internal.segment.bytes": str(SEGMENT_BYTES)})
    records = rows("turns")
    turn = len(records) // 4
    for number in range(4):
        part = records[number * turn : (number + 1) * turn]
        if number % 2:
            broker.stop()
            write(broker.directory / "t-0", "zstd", part)
            broker.start()
        else:
            produce(broker.bootstrap, "t", part)
    assert kafka_consume(broker.bootstrap, ["t-0"])["t-0"] == expected(records)
    broker.stop()
    with tidelog.open_log(broker.directory / "t-0", read_only=True) as log:
        assert [record.value for record in log.records()] == [row[0] for row in records]
