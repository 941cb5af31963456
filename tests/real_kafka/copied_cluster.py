"""Brokers that start on a copy of a cluster or on a snapshot of it, and the clients that go on there."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from real_kafka.broker import Broker
from real_kafka.cluster import PATIENCE_S
from real_kafka.cluster_load import GROUP, GROUP_IN_TRANSACTIONS
from real_kafka.copy_comparison import acls_of, committed_offsets, settings_of
from served_records import served_entries
from server.server_process import ANY_PORT, serving

GROUPS: Final = (GROUP, GROUP_IN_TRANSACTIONS)
WITH_TRANSACTIONS: Final = ("txn", "open")
"""The topics that readers of committed records see in another way."""
SMALLEST_SEGMENT: Final = 1 << 20
_SERVING: Final = {
    "log.cleaner.enable": "false",  # else the records of a compacted topic become fewer while a test compares them
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def started(directory: Path, kind: str) -> AbstractContextManager[str]:
    """Start ``kafka`` or ``tidelog`` on a directory, and return the address. It ends with a clean shutdown."""
    return _started_kafka(directory) if kind == "kafka" else _started_tidelog(directory)


@contextmanager
def _started_kafka(directory: Path) -> Iterator[str]:
    with Broker(directory, work=directory.parent / "work", properties=_SERVING, voters_in_log=True) as broker:
        broker.start()
        yield broker.bootstrap
        broker.stop()


@contextmanager
def _started_tidelog(directory: Path) -> Iterator[str]:
    settings = {**_SERVING, "listeners": ANY_PORT, "log.dirs": str(directory)}
    options = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    with serving(directory.parent, *options) as process:
        yield f"127.0.0.1:{process.port}"
        process.send_signal(signal.SIGTERM)
        code, words = process.ended()
        assert code == 0, words


def everything(bootstrap: str, admin: AdminClient, topics: Collection[str]) -> dict[str, object]:
    """Return the parts of the source that a broker on the copy must serve."""
    with_transactions = partitions_of(admin, WITH_TRANSACTIONS)
    return {
        "read_uncommitted": served_entries(bootstrap, partitions_of(admin, topics)),
        "read_committed": served_entries(bootstrap, with_transactions, isolation="read_committed"),
        "settings": {topic: allowed(found) for topic, found in settings_of(admin, topics).items()},
        "acls": acls_of(admin),
        "groups": committed_offsets(admin, GROUPS),
    }


def allowed(settings: dict[str, str | None]) -> dict[str, str | None]:
    """Return a topic's settings. Segments that are too small for Kafka 4 have the smallest size that it allows."""
    size = settings.get("segment.bytes")
    return settings if size is None else {**settings, "segment.bytes": str(max(int(size), SMALLEST_SEGMENT))}


def partitions_of(admin: AdminClient, topics: Collection[str]) -> list[str]:
    """Return every ``topic-partition`` of the topics."""
    return [
        f"{topic}-{number}"
        for topic in topics
        for number in admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
    ]


def client_of(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


def go_on(bootstrap: str) -> None:
    """Go on as the producers and the group of the source: the open transaction is aborted, another one commits."""
    for name, topic in (("open", "open"), ("txn", "txn")):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 2})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(topic, b"goes on", partition=0)
        producer.commit_transaction(PATIENCE_S)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": GROUP, "isolation.level": "read_committed", "log_level": 2}
    )
    (place,) = consumer.committed([KafkaPartition("open", 0)], timeout=PATIENCE_S)
    consumer.assign([place])
    value = None
    while value != b"goes on":
        (message,) = consumer.consume(1, timeout=PATIENCE_S)
        assert message.error() is None
        value = message.value()
        assert value != b"left open"
    consumer.commit(asynchronous=False)
    consumer.close()
