"""The client of a replicated topic: librdkafka, which takes less of the cores than a JVM would.

Its idempotent producer is not used: it keeps a core busy while it waits for a large response, and would measure itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from benchmarks.worker import Done
from real_kafka.cluster import PATIENCE_S, Cluster

_BATCH = 500
"""The records of one call. All of them go to the same partition."""
_PAUSE_S = 0.005
_LOOK_S = 0.001
_WARM_UPS = 50
_IMPATIENT = {
    "topic.metadata.refresh.interval.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "retry.backoff.ms": 10,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
}
"""Settings with which the client itself takes little of the time of a failover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedLoad:
    """Records for a topic with three replicas."""

    name: str
    records: int
    record_bytes: int
    acks: str = "all"
    one_by_one: bool = False
    """True if each record waits for the response to the one before."""

    @property
    def bytes(self) -> int:
        return self.records * self.record_bytes


def write(cluster: Cluster, topic: str, partitions: int, load: ReplicatedLoad) -> Done:
    """Write all records to the partitions in turns. Return the time from the first one to the last response."""
    producer = _producer(cluster, {"acks": load.acks})
    messages = [{"value": b"v" * load.record_bytes} for _ in range(_BATCH)]
    producer.list_topics(topic, timeout=PATIENCE_S)
    begun = time.perf_counter()
    for number, first in enumerate(range(0, load.records, _BATCH)):
        rest = messages[: load.records - first]
        while rest:
            queued = producer.produce_batch(topic, rest, partition=number % partitions)
            if queued < len(rest):  # the queue is full
                producer.poll(_PAUSE_S)
            rest = [{"value": one["value"]} for one in rest[queued:]]
    flush(producer)
    seconds = time.perf_counter() - begun
    if load.acks == "all":
        _require_all(cluster, topic, load.records)
    return Done(seconds=seconds, bytes=load.bytes, records=load.records)


def write_one_by_one(cluster: Cluster, topic: str, partitions: int, load: ReplicatedLoad) -> Done:
    """Write each record after the response to the one before, in turns to all partitions."""
    producer = _producer(cluster, {"linger.ms": 0})
    value = b"v" * load.record_bytes
    for number in range(partitions):  # opens the connections
        _send_one(producer, topic, value, number)
    begun = time.perf_counter()
    for number in range(load.records):
        _send_one(producer, topic, value, number % partitions)
    seconds = time.perf_counter() - begun
    _require_all(cluster, topic, load.records + partitions)
    return Done(seconds=seconds, bytes=load.bytes, records=load.records)


class FirstAnswer:
    """A producer that sends a record to partition 0 every 5 ms. Leaving the context ends it."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self._producer = _producer(cluster, {"linger.ms": 0, **_IMPATIENT})
        self._answered: float | None = None

    def __enter__(self) -> Self:
        for _ in range(_WARM_UPS):
            _send_one(self._producer, self._topic, b"before", 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            flush(self._producer)

    def wait(self) -> float:
        """Send records until one of them is acknowledged, and return that time by ``time.perf_counter``."""
        deadline = time.monotonic() + PATIENCE_S
        while self._answered is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no record was acknowledged within {PATIENCE_S} s")
            self._producer.produce(self._topic, b"after", partition=0, on_delivery=self._note)
            self._producer.poll(_PAUSE_S)
        return self._answered

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        if error is None and self._answered is None:
            self._answered = time.perf_counter()


def _producer(cluster: Cluster, settings: dict[str, Any]) -> Producer:
    return Producer({"bootstrap.servers": cluster.direct, "log_level": 2, **settings})


def _send_one(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    """Send a record, and return with its response."""
    producer.produce(topic, value, partition=partition, on_delivery=require_no_error)
    flush(producer)


def require_no_error(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        raise RuntimeError(f"a record was not acknowledged: {error}")


def flush(producer: Producer) -> None:
    """Return within a ms of the last response. The producer's own ``flush`` looks only once a second."""
    deadline = time.monotonic() + PATIENCE_S
    while len(producer):
        producer.poll(_LOOK_S)
        if time.monotonic() > deadline:
            raise TimeoutError(f"records were not acknowledged within {PATIENCE_S} s")


def holds_all(cluster: Cluster, topic: str, records: int) -> bool:
    """Return True if the topic has so many records below its high watermarks."""
    places = {KafkaPartition(topic, number): OffsetSpec.latest() for number in cluster.partitions(topic)}
    found = sum(one.result(PATIENCE_S).offset for one in cluster.admin.list_offsets(places).values())
    return found == records


def _require_all(cluster: Cluster, topic: str, records: int) -> None:
    """Raise RuntimeError if the topic has another number of records."""
    if not holds_all(cluster, topic, records):
        raise RuntimeError(f"{topic} does not have {records} records")
