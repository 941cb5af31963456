"""Planned faults: their effect on the next requests, and the reaction of real clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from server.harness import WireClient
from tidelog.protocol.errors import ApiError
from tidelog.protocol.schemas import Struct
from tidelog.testing import ApiKey, Broker, ErrorCode

REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t")
        running.create_topic("other")
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with connected(broker) as made:
        yield made


def connected(broker: Broker, client_id: str = "test") -> WireClient:
    return WireClient(int(broker.bootstrap_servers.partition(":")[2]), client_id=client_id)


def latest(client: WireClient, topic: str = "t") -> int:
    """Return the error code of a request for the topic's end offset."""
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    answer = client.call(ApiKey.LIST_OFFSETS, replica_id=-1, topics=topics)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def fetch(client: WireClient, version: int | None = None, **fields: Any) -> Struct:
    return client.call(ApiKey.FETCH, version, max_wait=0, min_bytes=0, max_bytes=1 << 20, **fields)


def producer(broker: Broker, **settings: Any) -> Producer:
    return Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "retry.backoff.ms": 1, "log_level": 0}
        | settings
    )


def test_so_many_requests_on_a_topic_meet_an_error(broker: Broker, client: WireClient) -> None:
    broker.fail_next(ApiKey.LIST_OFFSETS, error=REFUSED, times=2, topic="t")
    assert latest(client, "other") == 0
    assert [latest(client), latest(client), latest(client)] == [REFUSED, REFUSED, 0]
    broker.fail_next(ApiKey.LIST_OFFSETS, error=REFUSED)
    broker.fail_next(ApiKey.LIST_OFFSETS, error=ErrorCode.KAFKA_STORAGE_ERROR)
    assert [latest(client, "other"), latest(client)] == [REFUSED, ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        (
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            {"topics": [{"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
        ),
        (ApiKey.DELETE_RECORDS, {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}]}),
    ],
)
def test_every_partition_of_the_request_has_the_error(
    broker: Broker, client: WireClient, api: ApiKey, fields: dict[str, Any]
) -> None:
    broker.fail_next(api, error=REFUSED, topic="t")
    assert client.call(api, **fields).topics[0].partitions[0].error_code == REFUSED
    assert client.call(api, **fields).topics[0].partitions[0].error_code == 0


def test_a_fetch_is_on_a_topic_by_name_by_id_and_by_session(broker: Broker, client: WireClient) -> None:
    topic_id = broker.call(lambda: broker.server.metadata.image.topics["t"].id)
    partitions = [{"partition": 0, "partition_max_bytes": 1 << 20, "fetch_offset": 0, "current_leader_epoch": -1}]
    broker.fail_next(ApiKey.FETCH, error=REFUSED, topic="t", times=2)
    by_name = fetch(client, 12, session_epoch=-1, topics=[{"topic": "t", "partitions": partitions}])
    assert by_name.responses[0].partitions[0].error_code == REFUSED
    by_id: dict[str, Any] = {"session_epoch": 0, "topics": [{"topic_id": topic_id, "partitions": partitions}]}
    assert fetch(client, **by_id).responses[0].partitions[0].error_code == REFUSED
    session = fetch(client, **by_id)
    assert session.error_code == 0
    broker.fail_next(ApiKey.FETCH, error=REFUSED, topic="t")
    broker.fail_next(ApiKey.FETCH, error=ErrorCode.UNKNOWN_SERVER_ERROR, topic="other")
    assert fetch(client, session_id=session.session_id, session_epoch=1).error_code == REFUSED
    assert fetch(client, session_id=session.session_id, session_epoch=1).error_code == 0
    broker.forget_faults()


def test_a_client_that_meets_an_error_of_produce_tries_again(broker: Broker) -> None:
    broker.create_topic("retried")
    broker.fail_next(ApiKey.PRODUCE, error=REFUSED, times=2, topic="retried")
    client = producer(broker)
    client.produce("retried", b"value")
    assert client.flush(60) == 0
    assert [record.value for record in broker.records("retried")] == [b"value"]


def test_an_answer_that_is_lost_doubles_nothing_of_an_idempotent_producer(broker: Broker) -> None:
    broker.create_topic("lost")
    client = producer(broker, **{"enable.idempotence": True})
    broker.lose_response(ApiKey.PRODUCE, times=2, topic="lost")
    for number in range(3):
        client.produce("lost", b"%d" % number)
        assert client.flush(60) == 0
    assert [record.value for record in broker.records("lost")] == [b"0", b"1", b"2"]


def test_a_delayed_request_is_carried_out_later(broker: Broker) -> None:
    with Broker(manual_time=True) as held, connected(held) as client:
        held.create_topic("t")
        held.delay_next(ApiKey.LIST_OFFSETS, ms=60_000)
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        sent = client.send(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=topics)
        held.wait_for(lambda: not held.has_faults)
        held.advance(59_999)
        with connected(held) as other:
            assert latest(other) == 0, "others do not wait"
        client.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.socket.recv(1)
        client.socket.settimeout(60)
        held.advance(1)
        assert client.receive(ApiKey.LIST_OFFSETS, 7, sent).topics[0].partitions[0].error_code == 0


def test_connections_are_dropped_a_clients_or_all(broker: Broker, client: WireClient) -> None:
    with connected(broker, "one") as one, connected(broker, "two") as two:
        for each in (client, one, two):
            assert latest(each) == 0
        assert broker.drop_connections("one") == 1
        assert one.is_closed_by_broker()
        assert latest(two) == 0
        assert broker.drop_connections("nobody") == 0
        assert broker.drop_connections() >= 2
        assert two.is_closed_by_broker()
        assert client.is_closed_by_broker()


def test_a_leader_epoch_moves_and_who_knows_the_one_before_is_told(broker: Broker, client: WireClient) -> None:
    broker.create_topic("moved")
    with pytest.raises(ApiError):
        broker.move_leader_epoch("moved", 1)

    def error_in(epoch: int) -> int:
        partitions = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": epoch}]
        topics = [{"name": "moved", "partitions": partitions}]
        code: int = client.call(ApiKey.LIST_OFFSETS, replica_id=-1, topics=topics).topics[0].partitions[0].error_code
        return code

    assert [error_in(0), error_in(1)] == [0, ErrorCode.UNKNOWN_LEADER_EPOCH]
    broker.move_leader_epoch("moved")
    assert [error_in(0), error_in(1)] == [ErrorCode.FENCED_LEADER_EPOCH, 0]
    writer = producer(broker)
    writer.produce("moved", b"value")
    assert writer.flush(60) == 0
    assert len(broker.records("moved")) == 1
