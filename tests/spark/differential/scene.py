"""A real Kafka with every kind of log, and a way to wait until its log directory shows the same as the broker.

=============  ========================================================================================================
topic          content
=============  ========================================================================================================
flights        three partitions: 0 with many records in small segments, 1 with few, 2 with none; every codec, headers
               and none, null keys and values, unsorted and equal times
stamped        times that the broker set (LogAppendTime)
transactions   committed, aborted and open transactions, and records outside transactions
open           a transaction that is open from offset 0 on
compacted      gaps from the cleaner
trimmed        log starts above 0: 0 begins at 40, 1 begins at its end (50), 2 begins at 0
gates.a        a few records each; ``__mine`` has a name like an internal topic, but is not internal
gates.b
__mine
=============  ========================================================================================================

The broker keeps serving. A reader of its log directory stops at the checkpointed high watermarks, so ``settle`` waits
until the checkpoints agree with the broker's responses to clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from real_kafka.broker import PATIENCE_S, Broker
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView

BEGIN_MS = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL_SEGMENTS = {"internal.segment.bytes": "16384", "index.interval.bytes": "512"}
COMPACTED = {
    "internal.segment.bytes": "4096",
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "100",
}
TOPICS: Mapping[str, tuple[int, Mapping[str, str]]] = {
    "flights": (3, SMALL_SEGMENTS),
    "stamped": (1, {"message.timestamp.type": "LogAppendTime"}),
    "transactions": (1, SMALL_SEGMENTS),
    "open": (1, {}),
    "compacted": (1, COMPACTED),
    "trimmed": (3, {}),
    "gates.a": (1, {}),
    "gates.b": (1, {}),
    "__mine": (1, {}),
}
PROPERTIES = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.ms": "-1",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "200",
}
"""Properties with compaction, and with frequent checkpoints for readers of the log directory."""


class Scene:
    """The topics of a running broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._topics: set[str] = set()
        self._held_open: list[Producer] = []
        self._failed: list[KafkaError] = []

    @property
    def directory(self) -> Path:
        return self.broker.directory

    def fill(self) -> None:
        """Create the topics, write all of them, and wait until they are as the table says."""
        for name, (partitions, config) in TOPICS.items():
            self.create(name, partitions, config)
        for number, codec in enumerate(CODECS):
            self._flights(codec, range(80 * number, 80 * (number + 1)))
        self._transactions()
        every_tenth_stays = [(b"v" * 60, b"%d" % (number if number % 10 == 0 else number % 7)) for number in range(400)]
        self.send("compacted", every_tenth_stays, batch=20)
        plain = self.producer()
        for number in range(50):
            for partition in range(3):
                self._produce(plain, "trimmed", b"%d" % number, None, partition, timestamp=BEGIN_MS + 1000 * number)
        for number in range(5):
            for topic in ("gates.a", "gates.b", "__mine", "stamped"):
                self._produce(plain, topic, b"%d" % number, b"key", timestamp=BEGIN_MS + number)
        self._flush(plain)
        self.broker.delete_records("trimmed", 0, 40)
        self.broker.delete_records("trimmed", 1, 50)
        self.wait_for("compaction", self.is_compacted)
        self.settle()

    def create(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        self.broker.create_topic(name, partitions=partitions, config=config)
        self._topics.add(name)

    def add_partitions(self, name: str, total: int) -> None:
        """Increase the topic's partitions to ``total``, and wait until clients see them."""
        self.broker.add_partitions(name, total)
        self.wait_for("a new partition", lambda: self._leads(name, total))

    def _leads(self, name: str, total: int) -> bool:
        partitions = self.broker.admin.list_topics(name, PATIENCE_S).topics[name].partitions
        return len(partitions) == total and all(partition.leader >= 0 for partition in partitions.values())

    def delete(self, name: str) -> None:
        """Delete a topic and wait until its directories are gone."""
        self.broker.admin.delete_topics([name])[name].result(PATIENCE_S)
        self._topics.remove(name)
        self.wait_for("deletion", lambda: not (self.directory / f"{name}-0").exists())

    def append(self, topic: str, counts: Iterable[int]) -> None:
        """Append ``counts`` records to the partitions in turn."""
        producer = self.producer()
        for partition, count in enumerate(counts):
            for number in range(count):
                self._produce(producer, topic, b"%d" % number, None, partition, timestamp=BEGIN_MS + number)
        self._flush(producer)

    def send(self, topic: str, records: Sequence[tuple[bytes, bytes]], *, batch: int) -> None:
        """Send values and keys to partition 0, ``batch`` records at once. A batch must fit into a segment."""
        producer = self.producer()
        for first in range(0, len(records), batch):
            for number, (value, key) in enumerate(records[first : first + batch], first):
                self._produce(producer, topic, value, key, timestamp=BEGIN_MS + number)
            self._flush(producer)

    def producer(self, **settings: str) -> Producer:
        names = {name.replace("_", "."): value for name, value in settings.items()}
        return Producer({"bootstrap.servers": self.broker.bootstrap, "log_level": 2, "linger.ms": "20"} | names)

    def _produce(
        self, producer: Producer, topic: str, value: bytes | None, key: bytes | None, partition: int = 0, **more: Any
    ) -> None:
        producer.produce(topic, value, key, partition, on_delivery=self._delivered, **more)

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failed.append(error)

    def _flush(self, producer: Producer) -> None:
        assert producer.flush(PATIENCE_S) == 0
        assert not self._failed

    def _flights(self, codec: str, numbers: range) -> None:
        producer = self.producer(compression_type=codec)
        for number in numbers:
            shape = number % 10
            self._produce(
                producer,
                "flights",
                None if shape == 3 else b"%06d " % number + b"value" * (number % 60),
                None if shape in (3, 4) else b"" if shape == 5 else b"key-%d" % (number % 20),
                1 if number % 8 == 7 else 0,
                # Ten consecutive records share a time, and every third ten is earlier than the ten before.
                timestamp=BEGIN_MS + 1000 * (number // 10 - (2 if number // 10 % 3 == 2 else 0)),
                headers={
                    6: [("a", b"1")],
                    7: [("a", b"1"), ("a", None), ("näme", b"")],
                    8: [("", b"\xff\x00")],
                }.get(shape, []),
            )
        self._flush(producer)

    def _transactions(self) -> None:
        """Fill ``transactions``: plain records, six transactions (alternately aborted), an open one, plain records."""
        plain = self.producer()
        producer = self.producer(transactional_id="of-the-scene", transaction_timeout_ms="900000")
        producer.init_transactions(PATIENCE_S)
        self._tell(plain, "transactions", "plain")
        for number in range(6):
            producer.begin_transaction()
            self._tell(producer, "transactions", f"transaction-{number}")
            if number % 2:
                producer.abort_transaction(PATIENCE_S)
            else:
                producer.commit_transaction(PATIENCE_S)
        producer.begin_transaction()
        self._tell(producer, "transactions", "open")
        self._tell(producer, "open", "open")
        self._tell(plain, "transactions", "held back")
        self._held_open.append(producer)

    def _tell(self, producer: Producer, topic: str, word: str) -> None:
        at = BEGIN_MS + 1000 * len(TOPICS)
        for number in range(10):
            self._produce(producer, topic, f"{word} {number}".encode(), word.encode(), timestamp=at + number)
        self._flush(producer)

    def settle(self) -> None:
        """Wait until the log directory shows readers the same as the broker shows clients."""
        self.wait_for("the checkpoints", self._is_checkpointed)

    def is_compacted(self, topic: str = "compacted") -> bool:
        """Return True if the cleaner has passed all but the active segment of a topic, without leftover files."""
        names = {path.name for path in (self.directory / f"{topic}-0").iterdir()}
        checkpoint = self.directory / "cleaner-offset-checkpoint"
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        cleaned = [int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")]
        active = max(int(name.split(".")[0]) for name in names if name.endswith(".log"))
        return cleaned == [active] and not any(name.endswith((".deleted", ".cleaned", ".swap")) for name in names)

    def _is_checkpointed(self) -> bool:
        topics = self.broker.admin.list_topics(timeout=PATIENCE_S).topics
        partitions = [KafkaPartition(topic, number) for topic in self._topics for number in topics[topic].partitions]
        ends = [self._told(partitions, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())]
        return list(zip(*ends, strict=True)) == [self._read(partition) for partition in partitions]

    def _told(self, partitions: list[KafkaPartition], spec: OffsetSpec) -> list[int]:
        futures = self.broker.admin.list_offsets(dict.fromkeys(partitions, spec))
        return [futures[partition].result(PATIENCE_S).offset for partition in partitions]

    def _read(self, partition: KafkaPartition) -> tuple[int, int]:
        view = LogView(LOCAL, self.directory / f"{partition.topic}-{partition.partition}")
        return view.log_start, view.end_offset()

    def wait_for(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"{what} took longer than {PATIENCE_S} s"
            time.sleep(0.05)
