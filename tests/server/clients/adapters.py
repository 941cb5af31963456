"""A common interface to produce and consume with three independent client libraries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import aiokafka
import kafka
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from kafka.codec import has_snappy

from tidelog.testing.broker.loop_thread import PATIENCE_S

Result = TypeVar("Result")
Header = tuple[str, str | bytes | None]


class Sent(NamedTuple):
    """A record as it is sent and received. ``timestamp`` is in ms."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp: int = 1_700_000_000_000
    partition: int = 0


class HasValue(Protocol):
    @property
    def value(self) -> bytes | None: ...


class Served(Protocol):
    """A broker or a cluster, as tests of either use it."""

    @property
    def bootstrap_servers(self) -> str: ...

    def records(self, topic: str, /) -> Sequence[HasValue]:
        """Return the committed records of a topic."""
        ...


class Adapter(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def codecs(self) -> Sequence[str]: ...

    def produce(self, bootstrap: str, topic: str, records: Sequence[Sent], **settings: Any) -> list[int]:
        """Return the offsets when all replicas have acknowledged the records. ``settings`` are the library's."""
        ...

    def consume(
        self, bootstrap: str, topic: str, total: int, partition: int = 0, start: int = 0, **settings: Any
    ) -> list[Sent]:
        """Return ``total`` records from offset ``start`` on. ``settings`` are the library's."""
        ...


class Librdkafka:
    name = "confluent-kafka"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def produce(self, bootstrap: str, topic: str, records: Sequence[Sent], **settings: Any) -> list[int]:
        own = {key.replace("_", "."): value for key, value in settings.items()}
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0} | own)
        acknowledged: list[Message] = []

        def on_delivery(error: Any, message: Message) -> None:
            assert error is None, error
            acknowledged.append(message)

        for sent in records:
            producer.produce(
                topic,
                sent.value,
                sent.key,
                sent.partition,
                on_delivery=on_delivery,
                timestamp=sent.timestamp,
                headers=list(sent.headers),
            )
        assert producer.flush(PATIENCE_S) == 0
        return [known(message.offset()) for message in acknowledged]

    def consume(
        self, bootstrap: str, topic: str, total: int, partition: int = 0, start: int = 0, **settings: Any
    ) -> list[Sent]:
        own = {key.replace("_", "."): value for key, value in settings.items()}
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.auto.commit": False} | own)
        consumer.assign([TopicPartition(topic, partition, start or OFFSET_BEGINNING)])
        try:
            messages = consumer.consume(total, PATIENCE_S)
        finally:
            consumer.close()
        return [
            Sent(one.value(), one.key(), _headers(one), one.timestamp()[1], known(one.partition())) for one in messages
        ]


class KafkaPython:
    name = "kafka-python"
    codecs = ("none", "gzip", *(("snappy",) if has_snappy() else ()), "lz4", "zstd")

    def produce(self, bootstrap: str, topic: str, records: Sequence[Sent], **settings: Any) -> list[int]:
        codec = settings.pop("compression_type", "none")
        own = {"compression_type": None if codec == "none" else codec, **settings}
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, acks="all", **own)
        try:
            sent = [
                producer.send(
                    topic,
                    one.value,
                    one.key,
                    headers=list(one.headers),
                    partition=one.partition,
                    timestamp_ms=one.timestamp,
                )
                for one in records
            ]
            producer.flush(PATIENCE_S)
            return [future.get(PATIENCE_S).offset for future in sent]
        finally:
            producer.close()

    def consume(
        self, bootstrap: str, topic: str, total: int, partition: int = 0, start: int = 0, **settings: Any
    ) -> list[Sent]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, **settings)
        place = kafka.TopicPartition(topic, partition)
        try:
            consumer.assign([place])
            consumer.seek(place, start)
            records: list[Any] = []
            while len(records) < total:
                records += consumer.poll(PATIENCE_S * 1000, max_records=total - len(records)).get(place, ())
        finally:
            consumer.close()
        return [_sent(record) for record in records]


class AioKafka:
    name = "aiokafka"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def produce(self, bootstrap: str, topic: str, records: Sequence[Sent], **settings: Any) -> list[int]:
        codec = settings.pop("compression_type", "none")
        own = {"compression_type": None if codec == "none" else codec, **settings}

        async def produced() -> list[int]:
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", **own) as producer:
                sent = [
                    await producer.send(
                        topic,
                        one.value,
                        one.key,
                        partition=one.partition,
                        timestamp_ms=one.timestamp,
                        headers=list(one.headers),
                    )
                    for one in records
                ]
                return [(await future).offset for future in sent]

        return run(produced)

    def consume(
        self, bootstrap: str, topic: str, total: int, partition: int = 0, start: int = 0, **settings: Any
    ) -> list[Sent]:
        async def consumed() -> list[Sent]:
            async with aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, **settings) as consumer:
                place = aiokafka.TopicPartition(topic, partition)
                consumer.assign([place])
                consumer.seek(place, start)
                return [_sent(await consumer.getone()) for _ in range(total)]

        return run(consumed)


ADAPTERS: Sequence[Adapter] = (Librdkafka(), KafkaPython(), AioKafka())


def run(work: Callable[[], Awaitable[Result]]) -> Result:
    """Return a coroutine's result, from a new event loop. Raise TimeoutError if it takes too long."""

    async def patient() -> Result:
        return await asyncio.wait_for(work(), PATIENCE_S)

    return asyncio.run(patient())


def known(value: Result | None) -> Result:
    """Return a field that confluent_kafka declares as optional, but every message read here has."""
    assert value is not None
    return value


def _headers(message: Message) -> tuple[Header, ...]:
    headers = message.headers() or []
    assert isinstance(headers, list)
    return tuple(headers)


def _sent(record: Any) -> Sent:
    headers = tuple((key, bytes(value)) for key, value in record.headers)
    return Sent(record.value, record.key, headers, record.timestamp, record.partition)
