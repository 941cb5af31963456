"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords and DescribeProducers over the wire."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from log_maker import BASE_TIME, batch
from server.data.data_home import DataHome, records
from server.replicas import replica_harness
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
EARLIEST_PENDING_UPLOAD = -6
COMMITTED = 1


def list_offset(data: DataHome, timestamp: int, *, version: int = 11, **options: Any) -> Struct:
    """Return the response for t-0."""
    part = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    part |= {name: options.pop(name) for name in ("current_leader_epoch", "partition_index") if name in options}
    values = {"replica_id": -1, "topics": [{"name": options.pop("topic", "t"), "partitions": [part]}], **options}
    response = data.client.call(ApiKey.LIST_OFFSETS, version, **values)
    answer: Struct = response.topics[0].partitions[0]
    return answer


@pytest.fixture
def filled(data: DataHome) -> DataHome:
    """Produce batches with the timestamps BASE_TIME + (0, 1), + 100 and + 50 ms. The log starts at offset 1."""
    data.create()
    for sent in (_at(0, b"a", b"b"), _at(100, b"c"), _at(50, b"d")):
        assert data.produce(sent).error_code == 0
    data.home.call(lambda: replica_harness.delete_records(data.partition(), 1))
    return data


def _at(ms: int, *values: bytes) -> bytes:
    return batch(0, values, timestamp=BASE_TIME + ms)


@pytest.mark.parametrize(
    ("timestamp", "offset", "found_ms"),
    [
        (LATEST, 4, -1),
        (EARLIEST, 1, -1),
        (EARLIEST_LOCAL, 1, -1),
        (LATEST_TIERED, -1, -1),
        (EARLIEST_PENDING_UPLOAD, -1, -1),
        (MAX_TIMESTAMP, 2, BASE_TIME + 100),
        (0, 1, BASE_TIME + 1),
        (BASE_TIME + 2, 2, BASE_TIME + 100),
        (BASE_TIME + 101, -1, -1),
    ],
)
def test_offsets_by_name_and_by_time(filled: DataHome, timestamp: int, offset: int, found_ms: int) -> None:
    answer = list_offset(filled, timestamp)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, found_ms)


def test_the_leader_epoch_comes_with_it(filled: DataHome) -> None:
    epoch = filled.leader_epoch
    assert list_offset(filled, LATEST).leader_epoch == epoch
    assert list_offset(filled, MAX_TIMESTAMP).leader_epoch == epoch
    for timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        assert list_offset(filled, timestamp).leader_epoch == -1


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [
        (MAX_TIMESTAMP, 6),
        (EARLIEST_LOCAL, 7),
        (LATEST_TIERED, 8),
        (EARLIEST_PENDING_UPLOAD, 10),
        (-7, 11),
        (-(2**63), 11),
    ],
)
def test_what_the_version_cannot_ask_for(filled: DataHome, timestamp: int, version: int) -> None:
    assert list_offset(filled, timestamp, version=version).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version(filled: DataHome, version: int) -> None:
    assert [list_offset(filled, asked, version=version).offset for asked in (LATEST, EARLIEST)] == [4, 1]


def test_isolation(data: DataHome) -> None:
    data.create()
    data.append(b"a")
    data.home.call(lambda: _append_open_transaction(data))
    assert list_offset(data, LATEST).offset == 2
    assert list_offset(data, LATEST, isolation_level=COMMITTED).offset == 1
    assert list_offset(data, LATEST, isolation_level=COMMITTED, replica_id=-2).offset == 2


def _append_open_transaction(data: DataHome) -> None:
    partition = data.partition()
    guard = partition.log.start_verification(7, 0, 0)
    partition.append(bytearray(records(b"t", producer_id=7, attributes=0x10)), guard=guard)


def test_errors_of_partitions(filled: DataHome) -> None:
    epoch = filled.leader_epoch
    assert list_offset(filled, LATEST, topic="nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    later = list_offset(filled, LATEST, current_leader_epoch=epoch + 1)
    assert (later.error_code, later.offset, later.timestamp) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    twice = [{"partition_index": 0, "timestamp": LATEST}] * 2
    response = filled.client.call(ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[{"name": "t", "partitions": twice}])
    assert [answer.error_code for answer in response.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_a_new_leader_that_does_not_know_yet(data: DataHome, version: int, code: ErrorCode) -> None:
    data.create()

    def lag() -> None:
        data.partition().in_sync.epoch_start_offset = 5

    data.home.call(lag)
    assert list_offset(data, LATEST, version=version).error_code == code
    assert list_offset(data, EARLIEST, version=version).error_code == 0


# --- leader epochs ---


def epoch_end(data: DataHome, epoch: int, *, version: int = 4, **part: Any) -> Struct:
    partition = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": -1, **part}
    topics = [{"topic": "t", "partitions": [partition]}]
    response = data.client.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)
    answer: Struct = response.topics[0].partitions[0]
    return answer


@pytest.mark.parametrize("version", [2, 3, 4])
def test_where_an_epoch_ends(data: DataHome, version: int) -> None:
    data.create()
    data.append(b"a", b"b")
    epoch = data.leader_epoch
    answer = epoch_end(data, epoch, version=version)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, epoch, 2)
    unknown = epoch_end(data, epoch + 5, version=version)
    assert (unknown.error_code, unknown.leader_epoch, unknown.end_offset) == (0, -1, -1)
    assert epoch_end(data, epoch, version=version, partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    fenced = epoch_end(data, epoch, version=version, current_leader_epoch=epoch + 1)
    assert fenced.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


# --- deleting records ---


def delete_records(
    data: DataHome, offsets: Mapping[tuple[str, int], int], *, version: int = 2
) -> list[tuple[int, int]]:
    """Return error code and low watermark of each partition."""
    topics = [
        {"name": topic, "partitions": [{"partition_index": number, "offset": offset}]}
        for (topic, number), offset in offsets.items()
    ]
    response = data.client.call(ApiKey.DELETE_RECORDS, version, topics=topics, timeout=20)
    return [(answer.error_code, answer.low_watermark) for topic in response.topics for answer in topic.partitions]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_below_an_offset_are_deleted(data: DataHome, version: int) -> None:
    data.create(partitions=2)
    data.append(b"a", b"b", b"c")
    assert delete_records(data, {("t", 0): 2, ("t", 1): 0}, version=version) == [(0, 2), (0, 0)]
    assert data.fetch(offset=1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_records(data, {("t", 0): -1}, version=version) == [(0, 3)]
    assert delete_records(data, {("t", 0): 1}, version=version) == [(0, 3)]


def test_what_is_not_deleted(data: DataHome) -> None:
    data.create()
    data.create("compacted", cleanup_policy="compact")
    data.create("__consumer_offsets")
    data.append(b"a")
    assert delete_records(
        data,
        {("t", 0): 2, ("t", 7): 0, ("compacted", 0): 0, ("__consumer_offsets", 0): 0, ("nowhere", 0): 0},
    ) == [
        (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.POLICY_VIOLATION, -1),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert delete_records(data, {("t", 0): -7}) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1)]


def test_deletion_waits_for_a_log_that_is_behind(data: DataHome) -> None:
    data.create()
    data.append(b"a", b"b")
    name, behind = TopicPartition("t", 0), SimpleNamespace(log_start_offset=0)
    moving: dict[TopicPartition, Any] = data.home.broker.logs._table.future
    data.home.call(lambda: moving.update({name: behind}))
    assert delete_records(data, {("t", 0): 1}) == [(ErrorCode.REQUEST_TIMED_OUT, 0)]
    behind.log_start_offset = 1
    assert delete_records(data, {("t", 0): 1}) == [(0, 1)]
    data.home.call(lambda: moving.pop(name))


# --- producers ---


def test_producers_and_their_transactions(data: DataHome) -> None:
    data.create()
    data.produce(records(b"a", b"b", producer_id=5, sequence=0))
    data.home.call(lambda: _append_open_transaction(data))
    topics = [{"name": "t", "partition_indexes": [0, 3]}]
    here, nowhere = data.client.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics).topics[0].partitions
    assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = [
        (one.producer_id, one.producer_epoch, one.last_sequence, one.current_txn_start_offset, one.coordinator_epoch)
        for one in here.active_producers
    ]
    assert found == [(5, 0, 1, -1, -1), (7, 0, 0, 2, -1)]
    assert here.active_producers[0].last_timestamp == BASE_TIME + 1
