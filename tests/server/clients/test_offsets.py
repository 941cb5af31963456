"""Clients look up offsets by time, at the ends of the log and after a deletion of records, and seek to them."""

from __future__ import annotations

import kafka
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from server.clients.adapters import ADAPTERS, Librdkafka, Sent, run
from tidelog.testing import Broker
from tidelog.testing.broker.loop_thread import PATIENCE_S

BEGIN_MS = 1_700_000_000_000
SENT = [Sent(b"%d" % number, timestamp=BEGIN_MS + number * 1000) for number in range(20)]


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """Create a topic that has one record a second in partition 0."""
    Librdkafka().produce(broker.bootstrap_servers, topic, SENT)
    return topic


def test_librdkafka_finds_offsets_by_time(broker: Broker, filled: str) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "nobody"})
    try:
        asked = [BEGIN_MS - 1, BEGIN_MS, BEGIN_MS + 4500, BEGIN_MS + 19_000, BEGIN_MS + 19_001]
        found = [consumer.offsets_for_times([TopicPartition(filled, 0, time)], PATIENCE_S)[0].offset for time in asked]
        assert found == [0, 0, 5, 19, -1]
        assert consumer.get_watermark_offsets(TopicPartition(filled, 0), PATIENCE_S) == (0, 20)
        assert consumer.get_watermark_offsets(TopicPartition(filled, 1), PATIENCE_S) == (0, 0)
    finally:
        consumer.close()


def test_kafka_python_finds_offsets_and_seeks(broker: Broker, filled: str) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=None)
    place = kafka.TopicPartition(filled, 0)
    try:
        consumer.assign([place])
        assert consumer.beginning_offsets([place]) == {place: 0}
        assert consumer.end_offsets([place]) == {place: 20}
        found = consumer.offsets_for_times({place: BEGIN_MS + 6500})[place]
        assert (found.offset, found.timestamp) == (7, BEGIN_MS + 7000)
        consumer.seek(place, found.offset)
        assert next(consumer).value == b"7"
        consumer.seek_to_beginning(place)
        assert next(consumer).value == b"0"
    finally:
        consumer.close()


def test_aiokafka_finds_offsets_and_seeks(broker: Broker, filled: str) -> None:
    import aiokafka

    async def asked() -> None:
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=None) as consumer:
            place = aiokafka.TopicPartition(filled, 0)
            consumer.assign([place])
            assert await consumer.end_offsets([place]) == {place: 20}
            found = (await consumer.offsets_for_times({place: BEGIN_MS + 11_500}))[place]
            assert found.offset == 12
            consumer.seek(place, found.offset)
            assert (await consumer.getone()).value == b"12"
            await consumer.seek_to_end(place)
            assert await consumer.position(place) == 20

    run(asked)


def test_offsets_of_every_kind_and_after_a_deletion(broker: Broker, filled: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    place = TopicPartition(filled, 0)

    def offset(spec: OffsetSpec) -> int:
        (future,) = admin.list_offsets({place: spec}).values()
        return int(future.result(PATIENCE_S).offset)

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 20
    assert offset(OffsetSpec.max_timestamp()) == 19
    (deleted,) = admin.delete_records([TopicPartition(filled, 0, 8)]).values()
    assert deleted.result(PATIENCE_S).low_watermark == 8
    assert offset(OffsetSpec.earliest()) == 8
    for adapter in ADAPTERS:
        assert adapter.consume(broker.bootstrap_servers, filled, 12, start=8) == SENT[8:], adapter.name


def test_a_consumer_whose_offset_is_gone_begins_where_it_was_told_to(broker: Broker, filled: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (deleted,) = admin.delete_records([TopicPartition(filled, 0, 15)]).values()
    deleted.result(PATIENCE_S)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "nobody", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(filled, 0, 3)])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.offset() == 15
        consumer.seek(TopicPartition(filled, 0, 18))
        assert [message.offset() for message in consumer.consume(2, PATIENCE_S)] == [18, 19]
    finally:
        consumer.close()
