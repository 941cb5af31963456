"""The records that a partition's readers get: tidelog from the files, a real consumer from a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

import tidelog
from real_kafka.broker import PATIENCE_S

Isolation = Literal["read_uncommitted", "read_committed"]
ISOLATIONS: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")


Records = dict[str, list[tuple[int, bytes | None]]]
"""Offsets and values by partition."""


def read_by_tidelog(directory: Path, isolation: Isolation) -> Records:
    """Read every partition except internal ones. The directory may be as a kill left it."""
    with tidelog.open_directory(directory, read_only=True) as opened:
        return {
            partition.directory_name: [
                (record.offset, record.value)
                for record in opened.log(partition.topic, partition.partition).records(isolation=isolation)
            ]
            for partition in opened.partitions()
            if not partition.topic.startswith("__")
        }


def read_by_kafka(bootstrap: str, partitions: Iterable[str], isolation: Isolation) -> Records:
    """Read with librdkafka, which checks CRCs, up to the end that the broker reports."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "served",
            "check.crcs": True,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "log_level": 2,
        }
    )
    names = [name.rpartition("-") for name in partitions]
    records: Records = {f"{topic}-{number}": [] for topic, _, number in names}
    try:
        consumer.assign([KafkaPartition(topic, int(number), OFFSET_BEGINNING) for topic, _, number in names])
        at_end: set[str] = set()
        deadline = time.monotonic() + PATIENCE_S
        while len(at_end) < len(records):
            assert time.monotonic() < deadline, f"only {at_end} were read to their end"
            for message in consumer.consume(1000, timeout=0.2):
                name = f"{message.topic()}-{message.partition()}"
                error = message.error()
                if error is None:
                    offset = message.offset()
                    assert offset is not None
                    records[name].append((offset, message.value()))
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    at_end.add(name)
        return records
    finally:
        consumer.close()
