"""A broker's directory that tidelog cleaned: the broker reads the same records, and its own cleaner continues."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from real_kafka.broker import Broker
from real_kafka.conftest import BrokerFactory
from real_kafka.tools import kafka_consume, kafka_dump_complaints, kafka_dump_log
from tidelog.kernel import OffsetMap
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.checkpoint import OffsetCheckpoint
from tidelog.storage.cleaner.clean.clean_log import clean_log
from tidelog.storage.cleaner.clean.clean_request import CleanerStats
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.load.open_request import OpenRequest
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig

pytestmark = pytest.mark.kafka

GROUP = "g"
USERS, OFFSETS = "users-0", "__consumer_offsets-0"
SEGMENT_BYTES = 8192
COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
ONE_OFFSETS_PARTITION = {"offsets.topic.num.partitions": "1"}
CLEANING = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.io.buffer.size": "4096",
}
WAIT_MS = 200_000

Table = dict[bytes, bytes]


def produce(broker: Broker, seed: int) -> None:
    """Write committed and aborted transactions and plain records. Every key occurs many times."""
    settings = {"bootstrap.servers": broker.bootstrap, "log_level": 2, "compression.type": "lz4", "linger.ms": "0"}
    producer = Producer({**settings, "transactional.id": "t", "batch.size": "2000"})
    producer.init_transactions(60)
    for number in range(4):
        producer.begin_transaction()
        for at in range(100):
            value = None if at % 7 == number else b"%d of %d %080d" % (number, seed, at)
            producer.produce("users", value, b"key-%d" % (at % 23), partition=0)
        assert producer.flush(60) == 0  # an abort drops records that were not sent
        if number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    plain = Producer({**settings, "compression.type": "none"})
    for at in range(100):
        plain.produce("users", b"plain %d %080d" % (seed, at), b"key-%d" % (at % 41), partition=0)
        assert plain.flush(60) == 0


OF_A_SLOW_MACHINE = (
    "event queue overloaded",
    "epoch 0 due to Stopped loading records from __share_group_state",
    "due to Stopped loading records from __consumer_offsets",
)
"""Errors at a slow start that do not concern the files. A broker that starts leads in its last epoch for a moment. If
the next epoch begins while a coordinator still loads, that load is stopped, and another one follows."""


def errors(broker: Broker) -> list[str]:
    """Return the log's errors, except those of a slow machine."""
    return [
        line
        for line in broker.log_text.splitlines()
        if "ERROR" in line and not any(words in line for words in OF_A_SLOW_MACHINE)
    ]


def commit(broker: Broker, offsets: range = range(0)) -> int:
    """Commit the offsets one by one as a consumer of the group. Return the offset committed before them."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "log_level": 2})
    held = committed(consumer)
    for offset in offsets:
        consumer.commit(offsets=[KafkaPartition("users", 0, offset)], asynchronous=False)
    consumer.close()
    return held


def committed(consumer: Consumer) -> int:
    """Ask for the committed offset until the broker has loaded its group coordinator's state."""
    deadline = SYSTEM_CLOCK.now_ms() + WAIT_MS
    while True:
        try:
            (held,) = consumer.committed([KafkaPartition("users", 0)], timeout=WAIT_MS / 1000)
        except KafkaException as error:
            is_early = error.args[0].retriable() or error.args[0].code() == KafkaError.NOT_COORDINATOR
            if SYSTEM_CLOCK.now_ms() > deadline or not is_early:
                raise
            SYSTEM_CLOCK.sleep_ms(50)
        else:
            return int(held.offset)


def table(broker: Broker) -> Table:
    """Return the last value of each key that a read_committed reader sees."""
    found: Table = {}
    for _, _, _, key, value, _ in kafka_consume(broker.bootstrap, [USERS], isolation="read_committed")[USERS]:
        assert key is not None
        found.pop(key, None)
        if value is not None:
            found[key] = value
    return found


def cleaned_up_to(broker: Broker) -> dict[str, int]:
    """Return the broker's cleaner checkpoint by partition."""
    held = OffsetCheckpoint.read(LOCAL, broker.directory / "cleaner-offset-checkpoint")
    return {str(name): offset for name, offset in held.items()}


def clean(directory: Path) -> CleanerStats:
    """Clean all segments except a new active segment once."""
    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=2 * SEGMENT_BYTES, delete_retention_ms=0)
    request = OpenRequest(fs=LOCAL, directory=directory, clock=SYSTEM_CLOCK, config=config, clean_shutdown=True)
    log = PartitionLog.open(request)
    log.roll()
    cleaned = clean_log(
        log,
        first_dirty=0,
        first_uncleanable=log.end_offset,
        offset_map=OffsetMap(1 << 20, key=bytes(16)),
    )
    log.close()
    return cleaned.stats


def active_base(broker: Broker, partition: str) -> int:
    return max(int(log.stem) for log in (broker.directory / partition).glob("*.log"))


def test_kafkas_cleaner_goes_on_with_what_tidelog_cleaned(new_broker: BrokerFactory) -> None:
    broker = new_broker(properties=ONE_OFFSETS_PARTITION)
    broker.start()
    broker.create_topic("users", config=COMPACTED)
    produce(broker, 1)
    commit(broker, range(200))
    expected = table(broker)
    broker.stop()
    for name in (USERS, OFFSETS):
        stats = clean(broker.directory / name)
        assert 0 < stats.messages_written < stats.messages_read / 2
    logs = [log for name in (USERS, OFFSETS) for log in sorted((broker.directory / name).glob("*.log"))]
    assert "isvalid: false" not in kafka_dump_log(logs, "--deep-iteration")
    assert kafka_dump_complaints([log.with_suffix(".index") for log in logs], "--verify-index-only") == ""

    broker.properties |= CLEANING
    broker.start()
    assert table(broker) == expected
    produce(broker, 2)
    assert commit(broker, range(200, 300)) == 199
    goal = {name: active_base(broker, name) for name in (USERS, OFFSETS)}
    expected = table(broker)
    deadline = SYSTEM_CLOCK.now_ms() + WAIT_MS
    while any(cleaned_up_to(broker).get(name, -1) < offset for name, offset in goal.items()):
        assert SYSTEM_CLOCK.now_ms() < deadline, f"{cleaned_up_to(broker)}, not {goal}\n{broker.log_text}"
        SYSTEM_CLOCK.sleep_ms(50)
    assert table(broker) == expected
    assert commit(broker) == 299
    broker.stop()
    assert errors(broker) == []
    assert "uncleanable" not in broker.log_text
