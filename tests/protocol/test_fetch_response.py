"""The client's decoder of Fetch responses agrees with kio's, does not copy records, and survives any bytes."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.test_own_codecs import FETCHED, INT32, INT64, LEADERS, NODES, RECORDS, TEXT, TOPIC_ID, few
from protocol.test_own_codecs import struct as fields
from tidelog.protocol import fetch
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.fetch import DivergingEpoch
from tidelog.protocol.fetch_response import NO_SNAPSHOT, SnapshotId, read_fetch_response
from tidelog.protocol.leader_hints import UNKNOWN_LEADER, LeaderIdAndEpoch, NodeEndpoint
from tidelog.protocol.messages import read_response, write_response

VERSIONS = st.integers(fetch.OLDEST, fetch.LATEST)
RESPONSES = fields(
    throttle_time=st.integers(0, 2**31 - 1),
    error_code=st.integers(-1, 133),
    session_id=INT32,
    responses=few(
        fields(
            topic=TEXT,
            topic_id=TOPIC_ID,
            partitions=few(
                fields(
                    partition_index=INT32,
                    error_code=st.integers(-1, 133),
                    high_watermark=INT64,
                    last_stable_offset=INT64,
                    log_start_offset=INT64,
                    diverging_epoch=fields(epoch=INT32, end_offset=INT64),
                    current_leader=LEADERS.map(LeaderIdAndEpoch._asdict),
                    snapshot_id=fields(end_offset=INT64, epoch=INT32),
                    aborted_transactions=st.none() | few(fields(producer_id=INT64, first_offset=INT64)),
                    preferred_read_replica=INT32,
                    records=st.none() | RECORDS,
                )
            ),
        )
    ),
    node_endpoints=NODES.map(lambda nodes: [node._asdict() for node in nodes]),
)


def of_kio(version: int, data: bytes) -> Any:
    """Return a response as kio reads it, as tuples."""
    kio = read_response(ApiKey.FETCH, version, data)
    return (
        kio.throttle_time,
        kio.error_code,
        kio.session_id,
        [
            # kio's class has the field that its version has; the other one is not on the wire
            (
                topic.topic if version < 13 else "",
                topic.topic_id if version >= 13 else None,
                [
                    (
                        one.partition_index,
                        one.error_code,
                        one.high_watermark,
                        one.last_stable_offset,
                        one.log_start_offset,
                        one.aborted_transactions
                        and [(each.producer_id, each.first_offset) for each in one.aborted_transactions],
                        one.preferred_read_replica,
                        one.records or b"",
                        (one.diverging_epoch.epoch, one.diverging_epoch.end_offset),
                        (one.current_leader.leader_id, one.current_leader.leader_epoch),
                        (one.snapshot_id.end_offset, one.snapshot_id.epoch),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in kio.responses
        ],
        [(one.node_id, one.host, one.port, one.rack) for one in kio.node_endpoints],
    )


def comparable(response: Any) -> Any:
    """Return tuples, with empty lists for empty tuples and bytes for views."""
    if isinstance(response, memoryview | bytes):
        return bytes(response)
    return [comparable(one) for one in response] if isinstance(response, tuple | list) else response


@settings(max_examples=300, deadline=None)
@given(version=VERSIONS, values=RESPONSES)
def test_a_response_is_read_as_kio_reads_it(version: int, values: dict[str, Any]) -> None:
    data = write_response(ApiKey.FETCH, version, values)
    assert comparable(read_fetch_response(version, memoryview(data))) == comparable(of_kio(version, data))


@settings(max_examples=100, deadline=None)
@given(version=VERSIONS, response=FETCHED)
def test_a_response_of_the_server_comes_back(version: int, response: fetch.FetchResponse) -> None:
    (data,) = fetch.write_fetch_response(version, response)
    assert isinstance(data, bytes)
    read = read_fetch_response(version, memoryview(data))
    assert read.throttle_time == response.throttle_time
    for topic, sent in zip(read.responses, response.responses, strict=True):
        assert topic.topic == (sent.topic if version < 13 else "")
        for one, other in zip(topic.partitions, sent.partitions, strict=True):
            assert bytes(one.records) == other.records
            assert one.high_watermark == other.high_watermark
            if version >= 12:
                assert one.diverging_epoch == other.diverging_epoch
                assert one.current_leader == other.current_leader


def test_every_field_of_the_latest_version() -> None:
    values = {
        "throttle_time": 1,
        "error_code": 2,
        "session_id": 3,
        "responses": [
            {
                "topic_id": UUID(int=4),
                "partitions": [
                    {
                        "partition_index": 5,
                        "error_code": 6,
                        "high_watermark": 7,
                        "last_stable_offset": 8,
                        "log_start_offset": 9,
                        "diverging_epoch": {"epoch": 10, "end_offset": 11},
                        "current_leader": {"leader_id": 12, "leader_epoch": 13},
                        "snapshot_id": {"end_offset": 14, "epoch": 15},
                        "aborted_transactions": [{"producer_id": 16, "first_offset": 17}],
                        "preferred_read_replica": 18,
                        "records": b"records",
                    },
                    {"partition_index": 19, "aborted_transactions": None, "records": None},
                ],
            }
        ],
        "node_endpoints": [{"node_id": 20, "host": "host", "port": 21, "rack": "rack"}],
    }
    response = read_fetch_response(18, memoryview(write_response(ApiKey.FETCH, 18, values)))
    assert response[:3] == (1, 2, 3)
    assert response.node_endpoints == [NodeEndpoint(20, "host", 21, "rack")]
    (topic,) = response.responses
    assert topic.topic_id == UUID(int=4)
    full, empty = topic.partitions
    assert full[:5] == (5, 6, 7, 8, 9)
    assert full.aborted_transactions == [(16, 17)]
    assert full.preferred_read_replica == 18
    assert bytes(full.records) == b"records"
    assert full.diverging_epoch == DivergingEpoch(10, 11)
    assert full.current_leader == LeaderIdAndEpoch(12, 13)
    assert full.snapshot_id == SnapshotId(14, 15)
    assert empty.aborted_transactions is None
    assert bytes(empty.records) == b""
    assert empty[8:] == (fetch.NO_DIVERGENCE, UNKNOWN_LEADER, NO_SNAPSHOT)


def test_records_are_not_copied() -> None:
    records = bytes(20_000_000)
    partitions = [{"partition_index": number, "records": records} for number in range(2)]
    data = write_response(ApiKey.FETCH, 17, {"responses": [{"topic_id": UUID(int=1), "partitions": partitions}]})
    tracemalloc.start()
    response = read_fetch_response(17, memoryview(data))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    for one in response.responses[0].partitions:
        assert one.records.obj is data
        assert len(one.records) == len(records)


# --- bytes that are no response ---


@pytest.mark.parametrize("version", range(fetch.OLDEST, fetch.LATEST + 1))
def test_no_response_that_ends_early_is_read(version: int) -> None:
    partition = {"records": b"records", "aborted_transactions": [{"producer_id": 1}], "diverging_epoch": {"epoch": 1}}
    values = {"responses": [{"topic": "topic", "topic_id": UUID(int=5), "partitions": [partition]}]}
    data = write_response(ApiKey.FETCH, version, values)
    for end in range(len(data)):
        with pytest.raises(MalformedMessageError):
            read_fetch_response(version, memoryview(data)[:end])


@settings(max_examples=400, deadline=None)
@given(
    version=VERSIONS,
    values=RESPONSES,
    damage=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), min_size=1, max_size=4),
)
def test_damaged_responses_are_refused_or_read(
    version: int, values: dict[str, Any], damage: list[tuple[float, int]]
) -> None:
    data = bytearray(write_response(ApiKey.FETCH, version, values))
    for place, bit in damage:
        data[int(place * len(data))] ^= 1 << bit
    with suppress(MalformedMessageError):
        read_fetch_response(version, memoryview(data))


@settings(max_examples=400, deadline=None)
@given(version=VERSIONS, data=st.binary(max_size=200))
@example(version=4, data=struct.pack(">ii", 0, 2**31 - 1))
@example(version=17, data=bytes(10) + b"\xff\xff\xff\xff\x0f")
def test_any_bytes_are_refused_or_read(version: int, data: bytes) -> None:
    with suppress(MalformedMessageError):
        read_fetch_response(version, memoryview(data))


def test_announced_items_take_no_memory() -> None:
    for version, data in ((4, struct.pack(">ii", 0, 2**31 - 1)), (17, bytes(10) + b"\xff\xff\xff\xff\x0f")):
        tracemalloc.start()
        with pytest.raises(MalformedMessageError, match="items, the limit"):
            read_fetch_response(version, memoryview(data))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 100_000
