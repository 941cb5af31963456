"""Effects of a denied Produce or Fetch beyond its error code: acks=0, fetch sessions and delayed fetches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.authorization.case import on_topic
from server.authorization.data_cases import records_of
from server.authorization.guarded_broker import ANN, guarded_broker, may
from server.harness import BrokerHome, WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation

BY_NAME = 12
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def home(tmp_path: Path) -> Iterator[BrokerHome]:
    with guarded_broker(tmp_path) as running:
        with running.client() as client:
            topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("t", "u")]
            client.call(ApiKey.CREATE_TOPICS, topics=topics, timeout=10_000)
        yield running


@pytest.fixture
def ann(home: BrokerHome) -> Iterator[WireClient]:
    with home.client(client_id=ANN) as client:
        yield client


def fetched(client: WireClient, *topics: str, **more: Any) -> Struct:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    asked = [{"topic": name, "partitions": [part]} for name in topics]
    limits = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1000, "session_epoch": -1}
    return client.call(ApiKey.FETCH, BY_NAME, topics=asked, **{**limits, **more})


def codes(answer: Struct) -> dict[str, int]:
    return {topic.topic: topic.partitions[0].error_code for topic in answer.responses}


def produced(topic: str, acks: int) -> dict[str, Any]:
    parts = [{"index": 0, "records": records_of()}]
    return {"acks": acks, "timeout": 10_000, "topic_data": [{"name": topic, "partition_data": parts}]}


def end_of(home: BrokerHome, topic: str) -> int:
    with home.client() as client:
        return int(fetched(client, topic).responses[0].partitions[0].high_watermark)


def test_without_acks_a_denial_ends_the_connection(home: BrokerHome, ann: WireClient) -> None:
    ann.send(ApiKey.PRODUCE, BY_NAME, **produced("t", 0))
    assert ann.is_closed_by_broker()
    assert end_of(home, "t") == 0


def test_what_is_denied_is_not_written(home: BrokerHome, ann: WireClient) -> None:
    may(home, on_topic(Operation.WRITE, "u"))
    for topic, code, end in (("t", DENIED, 0), ("u", 0, 1)):
        (answer,) = ann.call(ApiKey.PRODUCE, BY_NAME, **produced(topic, -1)).responses
        assert (answer.partition_responses[0].error_code, end_of(home, topic)) == (code, end)


def test_a_session_tells_of_a_denial_each_time_and_of_the_records_when_it_is_over(
    home: BrokerHome, ann: WireClient
) -> None:
    with home.client() as client:
        client.call(ApiKey.PRODUCE, BY_NAME, **produced("t", -1))
    may(home, on_topic(Operation.READ, "u"))
    first = fetched(ann, "t", "u", session_epoch=0)
    assert codes(first) == {"t": DENIED, "u": 0}
    again = fetched(ann, session_id=first.session_id, session_epoch=1)
    assert codes(again) == {"t": DENIED}
    may(home, on_topic(Operation.READ, "t"))
    last = fetched(ann, session_id=first.session_id, session_epoch=2)
    assert codes(last) == {"t": 0}
    assert last.responses[0].partitions[0].records


def test_a_denial_is_told_beside_what_is_waited_for(home: BrokerHome, ann: WireClient) -> None:
    may(home, on_topic(Operation.READ, "u"))
    waiting = ann.send(
        ApiKey.FETCH,
        BY_NAME,
        replica_id=-1,
        max_wait=30_000,
        min_bytes=1,
        max_bytes=1000,
        session_epoch=-1,
        topics=[
            {"topic": name, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}
            for name in ("t", "u")
        ],
    )
    with home.client() as client:
        client.call(ApiKey.PRODUCE, BY_NAME, **produced("u", -1))
    answer = ann.receive(ApiKey.FETCH, BY_NAME, waiting)
    assert codes(answer) == {"t": DENIED, "u": 0}
    assert [bool(topic.partitions[0].records) for topic in answer.responses] == [False, True]
