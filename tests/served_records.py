"""The records of each partition as a running server (ours or Kafka's) serves them to librdkafka: manifest entries."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

PATIENCE_S = 200
BEGINNING = -2


def served_entries(
    bootstrap: str, partitions: Iterable[str], *, isolation: str = "read_uncommitted", **options: Any
) -> dict[str, dict[str, Any]]:
    """Return an entry for each ``topic-partition``. ``options`` are librdkafka's, with ``_`` in place of ``.``."""
    consumer = _consumer(bootstrap, isolation, **options)
    try:
        names = _places(partitions)
        bounds = {name: _bounds(consumer, place) for name, place in names.items()}
        read = {name: _Seen() for name in names}
        for name, message in _messages(consumer, names):
            read[name].add(message)
    finally:
        consumer.close()
    return {name: {**dict(zip(("low", "high"), bounds[name], strict=True)), **read[name].entry()} for name in names}


def served_until(bootstrap: str, partitions: Iterable[str], times: Sequence[int]) -> dict[str, list[dict[str, Any]]]:
    """Return an entry for each partition and each of the ascending times: the records before the first later one."""
    consumer = _consumer(bootstrap, "read_uncommitted")
    try:
        names = _places(partitions)
        read = {name: _Seen() for name in names}
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for name, message in _messages(consumer, names):
            seen, entries = read[name], found[name]
            while len(entries) < len(times) and message.timestamp()[1] > times[len(entries)]:
                entries.append(seen.entry())
            seen.add(message)
    finally:
        consumer.close()
    for name, entries in found.items():
        entries += [read[name].entry()] * (len(times) - len(entries))
    return found


def _consumer(bootstrap: str, isolation: str, **options: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "served-records",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "log_level": 2,
            **{key.replace("_", "."): value for key, value in options.items()},
        }
    )


def _places(partitions: Iterable[str]) -> dict[str, KafkaPartition]:
    return {name: KafkaPartition(*_split(name), BEGINNING) for name in partitions}


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


def _messages(consumer: Consumer, names: dict[str, KafkaPartition]) -> Iterator[tuple[str, Message]]:
    """Yield the messages of all partitions up to their ends. There may be millions."""
    consumer.assign(list(names.values()))
    left = set(names)
    deadline = time.monotonic() + PATIENCE_S
    while left:
        assert time.monotonic() < deadline, f"nothing more comes of {sorted(left)}"
        for message in consumer.consume(1000, timeout=0.2):
            name = f"{message.topic()}-{message.partition()}"
            error = message.error()
            if error is None:
                yield name, message
                deadline = time.monotonic() + PATIENCE_S
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(name)
            else:
                raise AssertionError(error)


class _Seen:
    """The messages of a partition so far."""

    def __init__(self) -> None:
        self._count = 0
        self._first: int | None = None
        self._last: int | None = None
        self._digest = hashlib.sha256()

    def add(self, message: Message) -> None:
        offset = message.offset()
        self._first = offset if self._first is None else self._first
        self._last = offset
        self._count += 1
        self._digest.update(_line(message))

    def entry(self) -> dict[str, Any]:
        return {"count": self._count, "first": self._first, "last": self._last, "sha256": self._digest.hexdigest()}


def _line(message: Message) -> bytes:
    """Return the fields as JSON. A text by hand takes a third of the encoder's time."""
    kind, timestamp = message.timestamp()
    headers = message.headers()
    key, value = _hex(message.key()), _hex(message.value())
    shown = _headers(headers) if headers else "[]"
    return f"[{message.offset()},{kind},{timestamp if kind else 0},{key},{value},{shown}]\n".encode()


def _headers(headers: object) -> str:
    assert isinstance(headers, list)
    return f"[{','.join(f'[{json.dumps(key)},{_hex(value)}]' for key, value in headers)}]"


def _hex(data: bytes | str | None) -> str:
    if data is None:
        return "null"
    assert not isinstance(data, str)
    return f'"{data.hex()}"'
