"""The records of each partition as a running server (ours or Kafka's) serves them to librdkafka: manifest entries."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

PATIENCE_S = 200
BEGINNING = -2


def served_entries(
    bootstrap: str, partitions: Iterable[str], *, isolation: str = "read_uncommitted", **options: Any
) -> dict[str, dict[str, Any]]:
    """Return an entry for each ``topic-partition``. ``options`` are librdkafka's, with ``_`` in place of ``.``."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "served-records",
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "check.crcs": True,
        "log_level": 2,
        **{key.replace("_", "."): value for key, value in options.items()},
    }
    consumer = Consumer(settings)
    try:
        names = {name: KafkaPartition(*_split(name), BEGINNING) for name in partitions}
        bounds = {name: _bounds(consumer, place) for name, place in names.items()}
        read = _read(consumer, names)
    finally:
        consumer.close()
    return {name: _entry(*bounds[name], read[name]) for name in names}


def _split(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def _bounds(consumer: Consumer, place: KafkaPartition) -> tuple[int, int]:
    """Return log start and end. A broker that has just started may name a leader before the leader is ready."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return consumer.get_watermark_offsets(place, PATIENCE_S)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _read(consumer: Consumer, names: dict[str, KafkaPartition]) -> dict[str, list[Message]]:
    consumer.assign(list(names.values()))
    read: dict[str, list[Message]] = {name: [] for name in names}
    left = set(names)
    deadline = time.monotonic() + PATIENCE_S
    while left:
        assert time.monotonic() < deadline, f"nothing more comes of {sorted(left)}"
        for message in consumer.consume(1000, timeout=0.2):
            name = f"{message.topic()}-{message.partition()}"
            error = message.error()
            if error is None:
                read[name].append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(name)
            else:
                raise AssertionError(error)
    return read


def _entry(low: int, high: int, messages: list[Message]) -> dict[str, Any]:
    digest = hashlib.sha256(b"".join(map(_line, messages)))
    return {
        "low": low,
        "high": high,
        "count": len(messages),
        "first": messages[0].offset() if messages else None,
        "last": messages[-1].offset() if messages else None,
        "sha256": digest.hexdigest(),
    }


def _line(message: Message) -> bytes:
    kind, timestamp = message.timestamp()
    headers = message.headers() or []
    assert isinstance(headers, list)
    fields = [
        message.offset(),
        kind,
        timestamp if kind else 0,
        _hex(message.key()),
        _hex(message.value()),
        [[key, _hex(value)] for key, value in headers],
    ]
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _hex(data: bytes | str | None) -> str | None:
    assert not isinstance(data, str)
    return None if data is None else data.hex()
