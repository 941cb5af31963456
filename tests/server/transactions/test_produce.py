"""Produce in a transaction, over the wire: accepted records, read_committed reads, and refused producers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from log_maker import batch
from server.harness import BrokerHome, WireClient, running_broker
from server.transactions.test_wire import add, begin, described, end, initialized, make_topics
from tidelog.kernel import ColumnDecoder, scan_batches
from tidelog.model import Record, TimestampType
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.record.attributes import CONTROL_FLAG
from tidelog.record.build import build_batch
from tidelog.record.decode import decode_columns, iter_records
from tidelog.record.internal_records.transaction_record import ProducerIdAndEpoch
from tidelog.runtime import SYSTEM_CLOCK

CHECKS, CHECKS_ABORTABLE, ADDS = 10, 11, 12
READ_COMMITTED = 1


@pytest.fixture
def home(tmp_path: Path) -> Iterator[BrokerHome]:
    with running_broker(tmp_path) as running:
        make_topics(running)
        yield running


def transactional(producer: ProducerIdAndEpoch, value: bytes, sequence: int = 0) -> bytes:
    """Return a batch of a transaction."""
    return bytes(
        build_batch(
            [Record(0, SYSTEM_CLOCK.now_ms(), TimestampType.CREATE, None, value)],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
    )


def produce_both(client: WireClient, name: str, events: bytes, audit: bytes) -> list[int]:
    """Send a batch to each of the two topics in one request, and return the error codes."""
    batches = {"events": events, "audit": audit}
    answer = client.call(
        ApiKey.PRODUCE,
        CHECKS,
        transactional_id=name,
        acks=-1,
        timeout=30_000,
        topic_data=[
            {"name": topic, "partition_data": [{"index": 0, "records": batch}]} for topic, batch in batches.items()
        ],
    )
    return [topic.partition_responses[0].error_code for topic in answer.responses]


def produce(
    client: WireClient,
    name: str,
    producer: ProducerIdAndEpoch,
    value: bytes,
    *,
    topic: str = "events",
    sequence: int = 0,
    version: int = ADDS,
) -> Struct:
    """Return the partition's part of the response."""
    batch = transactional(producer, value, sequence)
    answer = client.call(
        ApiKey.PRODUCE,
        version,
        transactional_id=name,
        acks=-1,
        timeout=30_000,
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": batch}]}],
    )
    (part,) = answer.responses[0].partition_responses
    assert isinstance(part, Struct)
    return part


def committed(client: WireClient, topic: str = "events") -> list[bytes]:
    """Return the values that a read_committed reader sees."""
    answer = client.call(
        ApiKey.FETCH,
        12,
        replica_id=-1,
        max_wait=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=READ_COMMITTED,
        session_id=0,
        session_epoch=-1,
        topics=[
            {
                "topic": topic,
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}],
            }
        ],
    )
    part = answer.responses[0].partitions[0]
    assert part.error_code == ErrorCode.NONE
    data = part.records or b""
    table = scan_batches(data)
    aborted = [(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()]
    values = []
    for row in range(len(table)):
        batch = table.row(row)
        if batch.attributes & CONTROL_FLAG:
            aborted = [one for one in aborted if one[0] != batch.producer_id or one[1] > batch.base_offset]
        elif not any(one[0] == batch.producer_id and one[1] <= batch.base_offset for one in aborted):
            (columns,) = decode_columns(data, table.take(slice(row, row + 1)), ColumnDecoder())
            values += [record.value or b"" for record in iter_records(columns)]
    return values


def test_a_commit_is_read_and_an_abort_is_not(client: WireClient) -> None:
    producer = initialized(client, "orders")
    for value, commits in ((b"first", True), (b"second", False), (b"third", True)):
        assert produce(client, "orders", producer, value).error_code == ErrorCode.NONE
        assert value not in committed(client)
        ended = end(client, "orders", producer, commits)
        assert ended.error_code == ErrorCode.NONE
        producer = ProducerIdAndEpoch(ended.producer_id, ended.producer_epoch)
    while described(client, "orders").transaction_state != "CompleteCommit":
        pass
    assert committed(client) == [b"first", b"third"]


def test_produce_adds_its_partition(client: WireClient) -> None:
    producer = initialized(client, "orders")
    produce(client, "orders", producer, b"x")
    produce(client, "orders", producer, b"x", topic="audit")
    assert [topic.topic for topic in described(client, "orders").topics] == ["audit", "events"]


@pytest.mark.parametrize("version", [CHECKS, CHECKS_ABORTABLE])
def test_older_clients_have_to_add_it_first(client: WireClient, version: int) -> None:
    producer = initialized(client, "orders")
    refused = produce(client, "orders", producer, b"x", version=version)
    expected = ErrorCode.INVALID_TXN_STATE if version == CHECKS else ErrorCode.TRANSACTION_ABORTABLE
    assert refused.error_code == expected
    add(client, "orders", producer, "events")
    assert produce(client, "orders", producer, b"x", version=version).error_code == ErrorCode.NONE
    assert produce(client, "orders", producer, b"y", version=version, sequence=1).error_code == ErrorCode.NONE


def test_a_repeated_batch_is_in_the_log_once(client: WireClient) -> None:
    producer = initialized(client, "orders")
    offsets = {produce(client, "orders", producer, b"x").base_offset for _ in range(3)}
    assert offsets == {0}


def test_a_producer_that_was_fenced_off_writes_no_more(client: WireClient) -> None:
    first = initialized(client, "orders")
    produce(client, "orders", first, b"lost")
    second = begin(client, "orders")
    assert produce(client, "orders", first, b"late", sequence=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert produce(client, "orders", first, b"late", topic="audit").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    newest = ProducerIdAndEpoch(second.producer_id, second.producer_epoch)
    produce(client, "orders", newest, b"kept")
    end(client, "orders", newest, True)
    while described(client, "orders").transaction_state != "CompleteCommit":
        pass
    assert committed(client) == [b"kept"]


def test_a_stranger_is_no_producer_of_the_transaction(client: WireClient) -> None:
    initialized(client, "orders")
    stranger = ProducerIdAndEpoch(4711, 0)
    answer = produce(client, "orders", stranger, b"x")
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert committed(client) == []


def test_only_batches_of_the_transaction_are_verified(client: WireClient) -> None:
    producer = initialized(client, "orders")
    plain = batch(0, (b"plain",))
    assert produce_both(client, "orders", transactional(producer, b"x"), plain) == [ErrorCode.INVALID_TXN_STATE, 0]
    add(client, "orders", producer, "events")
    assert produce_both(client, "orders", transactional(producer, b"x"), plain) == [0, 0]
    assert [topic.topic for topic in described(client, "orders").topics] == ["events"]


def test_a_request_has_batches_of_one_transactional_producer(client: WireClient) -> None:
    producer = initialized(client, "orders")
    add(client, "orders", producer, "events")
    other = ProducerIdAndEpoch(producer.producer_id + 1, 0)
    found = produce_both(client, "orders", transactional(producer, b"x"), transactional(other, b"y"))
    assert found == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    end(client, "orders", producer, True)
    assert committed(client) == []


def test_transactions_survive_the_broker(home: BrokerHome) -> None:
    with home.client() as client:
        producer = initialized(client, "orders")
        produce(client, "orders", producer, b"before")
    home.restart()
    with home.client() as client:
        while described(client, "orders").error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            pass
        assert produce(client, "orders", producer, b"after", sequence=1).error_code == ErrorCode.NONE
        end(client, "orders", producer, True)
        while described(client, "orders").transaction_state != "CompleteCommit":
            pass
        assert committed(client) == [b"before", b"after"]
