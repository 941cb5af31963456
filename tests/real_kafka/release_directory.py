"""Log directories written by a release of Kafka, with an example of everything that the release stores.

``write_everything`` makes a running broker and its clients create topics of every codec, transactions (committed,
aborted and one left open), compaction, and a log start that moved. It also makes groups of the classic, consumer and
share protocols, SCRAM users, access control entries, quotas and settings. ``leave_directories`` keeps the log
directories after a kill of the broker, and again after the next start and a clean shutdown. ``scripts/golden_set.py``
makes a release's golden set by the same steps, so it stays small: segments of a few KB and some thousand records.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from real_kafka.broker import PATIENCE_S, Broker
from real_kafka.kafka_tools import KafkaTools

PROPERTIES: Final[Mapping[str, str]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.share.record.lock.duration.ms": "15000",
}
"""Properties of every broker that serves the log directories. Only the cleaner runs by itself."""

SMALL_SEGMENTS: Final = {"internal.segment.bytes": "16384"}
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "4096",
}
TOPICS: Final[Mapping[str, tuple[int, Mapping[str, str]]]] = {
    "plain": (4, SMALL_SEGMENTS),
    "gzip": (1, SMALL_SEGMENTS),
    "snappy": (1, SMALL_SEGMENTS),
    "lz4": (1, SMALL_SEGMENTS),
    "zstd": (1, SMALL_SEGMENTS),
    "append-time": (1, {"message.timestamp.type": "LogAppendTime"}),
    "compacted": (2, COMPACTED),
    "txn": (2, SMALL_SEGMENTS),
    "trimmed": (1, SMALL_SEGMENTS),
    "shared": (1, {}),
    "empty": (1, {"retention.ms": "1000000000", "max.message.bytes": "2000000"}),
}
PARTITIONS: Final = tuple(f"{topic}-{number}" for topic, (count, _) in TOPICS.items() for number in range(count))

TRIMMED_TO: Final = 123
SHARED_RECORDS: Final = 40
SHARED_READ: Final = 15
"""The number of records that the share group acknowledges in ``write_everything``."""
COMMITTED: Final[Mapping[str, Mapping[tuple[str, int], int]]] = {
    "classic-readers": {("plain", 0): 100, ("plain", 1): 7},
    "consumer-readers": {("plain", 2): 55, ("txn", 0): 30},
}
"""The committed offsets by group."""
SHARE_GROUP: Final = "share-readers"
USERS: Final[Mapping[str, str]] = {"alice": "alice-secret", "bob": "bob-secret"}
QUOTA: Final = ("producer_byte_rate", 123456.0)


@dataclass(frozen=True, slots=True)
class Left:
    """Copies of a broker's log directories, in the order of ``log.dirs``."""

    unclean: tuple[Path, ...]
    clean: tuple[Path, ...]
    written_ms: int
    """The wall clock in ms when the broker was killed."""


def leave_directories(broker: Broker, root: Path) -> Left:
    """Format and fill ``broker``'s log directories; copy them to ``root`` after a kill and after a clean shutdown.

    The broker's own directories stay as the clean shutdown leaves them.
    """
    broker.format()
    broker.start()
    write_everything(broker)
    broker.kill()
    written_ms = time.time_ns() // 1_000_000
    unclean = _copied(broker.directories, root / "unclean")
    broker.start()
    broker.stop()
    return Left(unclean, _copied(broker.directories, root / "clean"), written_ms)


def write_everything(broker: Broker) -> None:
    """Write an example of everything to a newly formatted broker."""
    for name, (partitions, configs) in TOPICS.items():
        broker.create_topic(name, partitions=partitions, config=configs)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        _produce(broker, codec, records=300, settings={"compression.type": codec})
    _produce(broker, "plain", records=1200)
    _produce(broker, "append-time", records=20)
    _produce(broker, "trimmed", records=400)
    _produce(broker, "shared", records=SHARED_RECORDS)
    _produce(broker, "compacted", records=1500, keys=10, settings={"batch.num.messages": 20, "linger.ms": 0})
    broker.delete_records("trimmed", 0, TRIMMED_TO)
    _write_transactions(broker)
    _commit(broker, "classic-readers", "classic")
    _commit(broker, "consumer-readers", "consumer")
    with KafkaTools(broker.bootstrap) as tools:
        _write_metadata(tools)
        read_in_share_group(tools, SHARED_READ)
    _wait_for_cleaning(broker)


def read_in_share_group(tools: KafkaTools, count: int) -> list[str]:
    """Let the share group acknowledge the next ``count`` records, and return their values."""
    arguments = ["--topic", "shared", "--group", SHARE_GROUP, "--max-messages", str(count), "--timeout-ms", "120000"]
    # Each record of the topic is a batch, and a fetch acquires complete batches. With one record a poll none is
    # released.
    one_at_a_time = ["--command-property", "max.poll.records=1"]
    return tools.told("kafka-console-share-consumer", *arguments, *one_at_a_time)


def _write_metadata(tools: KafkaTools) -> None:
    """Create users, access control entries, quotas, and settings of a broker and a group."""
    for name, password in USERS.items():
        user = ["--entity-type", "users", "--entity-name", name]
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            tools.told("kafka-configs", "--alter", *user, "--add-config", f"{mechanism}=[password={password}]")
    client = ["--entity-type", "clients", "--entity-name", "limited"]
    limit = ["--add-config", f"{QUOTA[0]}={QUOTA[1]}"]
    tools.told("kafka-configs", "--alter", "--entity-type", "users", "--entity-name", "alice", *client, *limit)
    group = ["--entity-type", "groups", "--entity-name", SHARE_GROUP]
    tools.told("kafka-configs", "--alter", *group, "--add-config", "share.auto.offset.reset=earliest")
    broker = ["--entity-type", "brokers", "--entity-name", "1"]
    tools.told("kafka-configs", "--alter", *broker, "--add-config", "log.cleaner.threads=1")
    tools.told("kafka-acls", "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "plain")
    tools.told(
        "kafka-acls", "--add", "--deny-principal", "User:bob", "--operation", "All", "--group", "classic-readers"
    )


def _produce(
    broker: Broker, topic: str, *, records: int, keys: int = 50, settings: Mapping[str, object] | None = None
) -> None:
    """Write records with and without keys, values and headers. Their timestamps are not sorted."""
    draw = random.Random(f"{topic} {records}")
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "batch.num.messages": 1 if topic == "shared" else 100,
            "message.timeout.ms": PATIENCE_S * 1000,
            **(settings or {}),
        }
    )
    now = time.time_ns() // 1_000_000
    partitions, _ = TOPICS[topic]
    for number in range(records):
        keyless = topic != "compacted" and draw.random() < 0.1
        producer.produce(
            topic,
            None if draw.random() < 0.05 else b"value %d " % number * draw.randint(1, 5),
            None if keyless else b"key-%d" % draw.randrange(keys),
            partition=number % partitions,
            timestamp=now - draw.randrange(5000),
            headers=[("source", b"story"), ("empty", None)] if draw.random() < 0.1 else None,
        )
        if number % 40 == 0:
            assert producer.flush(PATIENCE_S) == 0
    assert producer.flush(PATIENCE_S) == 0


def _write_transactions(broker: Broker) -> None:
    """Let two producers take turns. Every third transaction aborts, and the second producer's last one stays open."""
    producers = [_transactional(broker, f"writer-{number}") for number in range(2)]
    for turn in range(12):
        for number, producer in enumerate(producers):
            producer.begin_transaction()
            for record in range(6):
                producer.produce("txn", b"%d-%d-%d" % (number, turn, record), partition=record % 2)
            assert producer.flush(PATIENCE_S) == 0  # an abort drops records that were not sent
            if turn % 3 == number:
                producer.abort_transaction(PATIENCE_S)
            else:
                producer.commit_transaction(PATIENCE_S)
    producers[1].begin_transaction()
    producers[1].produce("txn", b"left open", partition=0)
    assert producers[1].flush(PATIENCE_S) == 0
    producers[0].begin_transaction()
    producers[0].produce("txn", b"behind what is open", partition=0)
    producers[0].commit_transaction(PATIENCE_S)


def _transactional(broker: Broker, name: str) -> Producer:
    settings = {"transactional.id": name, "transaction.timeout.ms": 900_000, "message.timeout.ms": PATIENCE_S * 1000}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    producer.init_transactions(PATIENCE_S)
    return producer


def _commit(broker: Broker, group: str, protocol: str) -> None:
    """Join the group by the classic or the consumer protocol, commit as a member, and leave."""
    places = COMMITTED[group]
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(sorted({topic for topic, _ in places}))
    deadline = time.monotonic() + PATIENCE_S
    while not consumer.assignment():
        assert time.monotonic() < deadline, f"{group} has no assignment"
        consumer.poll(0.2)
    offsets = [KafkaPartition(topic, partition, offset) for (topic, partition), offset in places.items()]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def _wait_for_cleaning(broker: Broker) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not {"compacted 0", "compacted 1"} <= _cleaned(broker.directories):
        assert time.monotonic() < deadline, "the cleaner has not come by"
        time.sleep(0.1)


def _cleaned(directories: Sequence[Path]) -> set[str]:
    """List ``topic partition`` of every log that has been cleaned."""
    checkpoints = [directory / "cleaner-offset-checkpoint" for directory in directories]
    lines = [line for file in checkpoints if file.exists() for line in file.read_text().splitlines()[2:]]
    return {line.rpartition(" ")[0] for line in lines}


def _copied(directories: Sequence[Path], target: Path) -> tuple[Path, ...]:
    return tuple(Path(shutil.copytree(directory, target / directory.name)) for directory in directories)
