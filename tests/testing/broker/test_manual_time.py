"""A broker on a manual clock: due events happen in their sequence, and none happens early."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from server.harness import WireClient
from tidelog.testing import ApiKey, Broker, ErrorCode

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(manual_time=True) as running:
        yield running


def produce(broker: Broker, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for value in values:
        producer.produce("t", value)
    assert producer.flush(60) == 0


def test_time_stands_still_and_passes_as_it_is_moved(broker: Broker) -> None:
    timers = broker.server.timers
    before = broker.call(timers.now_ms)
    seen: list[int] = []
    broker.call(lambda: timers.call_later(5000, lambda: seen.append(timers.now_ms() - before)))
    broker.call(lambda: timers.call_later(2000, lambda: timers.call_later(1500, lambda: seen.append(3500))))
    broker.advance(4999)
    assert seen == [3500], "a timer that another sets comes in its turn"
    broker.advance(1)
    assert seen == [3500, 5000]
    assert broker.call(timers.now_ms) == before + 5000


def test_what_threads_do_is_done_before_time_goes_on(broker: Broker) -> None:
    timers, done = broker.server.timers, []

    async def in_a_thread() -> None:
        for _ in range(3):
            await broker.server.in_thread(lambda: done.append(timers.now_ms()))

    begun = broker.call(timers.now_ms)
    broker.call(lambda: timers.call_later(2000, lambda: broker.server.spawn(in_a_thread())))
    broker.advance(10_000)
    assert done == [begun + 2000] * 3


def test_records_go_when_their_time_is_over(broker: Broker) -> None:
    broker.create_topic("t", configs={"retention.ms": str(2 * HOUR_MS)})
    produce(broker, b"old")
    broker.advance(HOUR_MS)
    assert len(broker.records("t")) == 1
    broker.advance(HOUR_MS + 6 * MINUTE_MS)
    assert broker.records("t") == []


def test_a_session_is_over_when_its_time_is(broker: Broker) -> None:
    joining = {
        "group_id": "group",
        "member_id": "",
        "session_timeout": 30_000,
        "rebalance_timeout": 60_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    with WireClient(int(broker.bootstrap_servers.partition(":")[2])) as client:
        while (found := client.call(ApiKey.FIND_COORDINATOR, 3, key="group", key_type=0)).error_code:
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        while (joined := client.call(ApiKey.JOIN_GROUP, 3, **joining)).error_code:
            assert joined.error_code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        member = {"group_id": "group", "member_id": joined.member_id, "generation_id": joined.generation_id}

        def heartbeat() -> int:
            code: int = client.call(ApiKey.HEARTBEAT, 3, **member).error_code
            return code

        assert client.call(ApiKey.SYNC_GROUP, 2, **member, assignments=[]).error_code == 0
        broker.advance(29_000)
        assert heartbeat() == 0
        broker.advance(29_000)
        assert heartbeat() == 0, "its session began anew"
        broker.advance(30_000)
        assert heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_consumer_gets_its_answers_though_time_stands_still(broker: Broker) -> None:
    broker.create_topic("t")
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    assert consumer.poll(0.1) is None
    low, high = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=60)
    assert (low, high) == (0, 0), "not behind a fetch that waits for ever"
    produce(broker, b"value")
    message = consumer.poll(60)
    assert message is not None
    assert message.value() == b"value"
    consumer.close()


def test_its_time_goes_on_after_a_restart(broker: Broker) -> None:
    broker.advance(HOUR_MS)
    before = broker.call(broker.server.timers.now_ms)
    rang: list[int] = []
    broker.call(lambda: broker.server.timers.call_later(5000, lambda: rang.append(1)))
    broker.restart()
    assert broker.call(broker.server.timers.now_ms) == before
    broker.advance(MINUTE_MS)
    assert not rang, "what the broker before has planned is gone with it"
