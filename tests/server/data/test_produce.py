"""Produce over the wire: stored records, responses and refused requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_maker import BASE_TIME
from server.data.data_home import WITH_NAMES, DataHome, data_home, eventually, offsets_in, records
from tidelog.model import Isolation, Record, TimestampType
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.record.attributes import GZIP
from tidelog.record.build import build_batch
from tidelog.server.handlers.data import produced_part
from tidelog.storage.log.partition_log import LogReadRequest


def test_records_are_stored_and_their_offsets_answered(data: DataHome) -> None:
    data.create()
    first, second = data.produce(records(b"a", b"b")), data.produce(records(b"c"))
    assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 2)
    assert (first.log_append_time, first.log_start_offset) == (-1, 0)
    assert offsets_in(data.fetch().records) == [0, 1, 2]


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version(data: DataHome, version: int) -> None:
    topic_id = data.create()
    topics = [{"name": "t", "topic_id": topic_id, "partition_data": [{"index": 0, "records": records()}]}]
    response = data.client.call(ApiKey.PRODUCE, version, acks=1, timeout=1000, topic_data=topics)
    (topic,) = response.responses
    assert (topic.name, topic.topic_id) == (("t", None) if version < 13 else ("", topic_id))
    assert (topic.partition_responses[0].error_code, topic.partition_responses[0].base_offset) == (0, 0)


def test_each_partition_has_its_own_answer(data: DataHome) -> None:
    data.create(partitions=2)
    good, bad = records(b"a"), bytearray(records(b"b"))
    bad[-1] ^= 1
    topics = [
        {"name": "t", "partition_data": [{"index": 0, "records": good}, {"index": 1, "records": bytes(bad)}]},
        {"name": "nowhere", "partition_data": [{"index": 0, "records": good}]},
        {"name": "t", "partition_data": [{"index": 7, "records": good}]},
    ]
    response = data.client.call(ApiKey.PRODUCE, WITH_NAMES, acks=-1, timeout=1000, topic_data=topics)
    answers = [
        (topic.name, answer.index, answer.error_code, answer.base_offset)
        for topic in response.responses
        for answer in topic.partition_responses
    ]
    assert answers == [
        ("t", 0, 0, 0),
        ("t", 1, ErrorCode.CORRUPT_MESSAGE, -1),
        ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]


def test_an_unknown_topic_id(data: DataHome) -> None:
    data.create()
    topics = [{"topic_id": None, "partition_data": [{"index": 0, "records": records()}]}]
    response = data.client.call(ApiKey.PRODUCE, 13, acks=1, timeout=1000, topic_data=topics)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


# --- contents of a request ---


@pytest.mark.parametrize(
    ("sent", "version", "code"),
    [
        (None, 9, ErrorCode.INVALID_RECORD),
        (b"", 9, ErrorCode.INVALID_RECORD),
        (records()[:-1], 9, ErrorCode.INVALID_RECORD),
        (records() + records(), 9, ErrorCode.INVALID_RECORD),
        (b"\0" * 16 + b"\x01" + b"\0" * 100, 9, ErrorCode.CORRUPT_MESSAGE),
        (records()[:16] + b"\x01" + records()[17:], 9, ErrorCode.INVALID_RECORD),
        (records()[:16] + b"\x07" + records()[17:], 9, ErrorCode.CORRUPT_MESSAGE),
        (b"\0" * 11 + b"\x10" + b"\0" * 4 + b"\x02" + b"\0" * 40, 9, ErrorCode.CORRUPT_MESSAGE),
        (records(attributes=4), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
    ids=["null", "nothing", "cut", "two", "length 0", "v1", "magic 7", "no header", "zstd"],
)
def test_what_no_log_is_asked_to_take(data: DataHome, sent: bytes | None, version: int, code: ErrorCode) -> None:
    data.create()
    answer = data.produce(sent, version=version)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert data.append(b"next") == 0


def test_a_cut_second_batch_is_left_out(data: DataHome) -> None:
    data.create()
    assert data.produce(records(b"a") + records(b"b")[:30]).error_code == 0
    assert data.append(b"c") == 1


def test_records_that_are_refused_are_named(data: DataHome) -> None:
    data.create(cleanup_policy="compact")
    answer = data.produce(records(b"a", b"b", key=None))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert answer.error_message
    assert answer.log_start_offset == 0


def test_a_batch_that_is_too_large(data: DataHome) -> None:
    data.create(max_message_bytes="100")
    assert data.produce(records(b"x" * 200)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_the_log_sets_the_time_where_it_is_told_to(data: DataHome) -> None:
    data.create(message_timestamp_type="LogAppendTime")
    assert data.produce(records()).log_append_time > 1_700_000_000_000


def test_sequences_of_an_idempotent_producer(data: DataHome) -> None:
    data.create()
    first = data.produce(records(b"a", b"b", producer_id=5, sequence=0))
    again = data.produce(records(b"a", b"b", producer_id=5, sequence=0))
    gap = data.produce(records(b"c", producer_id=5, sequence=7))
    assert (first.base_offset, again.error_code, again.base_offset) == (0, 0, 0)
    assert (gap.error_code, gap.log_start_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    assert data.append(b"next") == 2


def test_internal_topics_are_for_coordinators_and_administrators(data: DataHome) -> None:
    data.create("__consumer_offsets")
    assert data.produce(records(), "__consumer_offsets").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    with data.home.client(client_id="__admin_client") as admin:
        assert data.produce(records(), "__consumer_offsets", client=admin).error_code == 0


def test_records_of_a_transaction_need_its_name(data: DataHome) -> None:
    data.create()
    for producer in ({"producer_id": 5}, {}):
        sent = records(**producer, attributes=0x10)
        assert data.produce(sent).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert data.append(b"first") == 0
    assert data.produce(records(attributes=0x10), transactional_id="x").error_code == 0


# --- acks ---


def test_acks_nobody_knows(data: DataHome) -> None:
    data.create()
    assert data.produce(records(), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert data.append(b"next") == 0


def test_without_acks_there_is_no_answer(data: DataHome) -> None:
    data.create()
    data.send_produce(records(b"a", b"b"), acks=0)
    assert data.append(b"c") == 2  # the next response belongs to the next request


def test_an_error_without_acks_ends_the_connection(data: DataHome) -> None:
    with data.home.client() as producer:
        data.send_produce(records(), "nowhere", acks=0, client=producer)
        assert producer.is_closed_by_broker()


def test_too_few_in_sync_replicas(data: DataHome) -> None:
    data.create(min_insync_replicas="2")
    assert data.produce(records()).error_code == 0  # there is only one replica

    data.home.call(lambda: data.assign(7))
    assert data.produce(records()).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert data.produce(records(), acks=1).error_code == 0


def test_acks_all_waits_for_the_replicas_until_the_time_is_over(data: DataHome) -> None:
    data.create()

    def fetch() -> None:
        at_end = LogReadRequest(start_offset=data.partition().log.end_offset, max_bytes=1, isolation=Isolation.LOG_END)
        data.partition().follower_fetched(7, data.partition().read(at_end), log_start_offset=0)

    data.home.call(lambda: data.assign(7, are_in_sync=True))
    answer = data.produce(records(b"a"), timeout=20)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    sent = data.send_produce(records(b"b"))
    with data.home.client() as other:  # the first request is delayed now
        eventually(lambda: data.home.call(lambda: data.partition().log.end_offset) == 2)
        assert data.produce(records(b"c"), acks=1, client=other).base_offset == 2
    data.home.call(fetch)
    response = data.client.receive(ApiKey.PRODUCE, WITH_NAMES, sent)
    assert response.responses[0].partition_responses[0].error_code == 0


# --- slow appends ---


def test_what_has_to_be_decompressed_is_appended_in_a_thread(data: DataHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produced_part, "_INLINE_BYTES", 10)
    data.create()
    sent = build_batch([Record(0, BASE_TIME, TimestampType.CREATE, None, b"v" * 100)] * 50, codec=GZIP)
    assert data.produce(sent).base_offset == 0
    assert data.produce(sent).base_offset == 50
    damaged = sent[:-9] + bytes(9)
    assert data.produce(damaged).error_code == ErrorCode.CORRUPT_MESSAGE


def test_what_is_flushed_is_flushed_in_a_thread(data: DataHome) -> None:
    data.create(flush_messages="1")
    assert data.append(b"a") == 0
    assert data.home.call(lambda: data.partition().log.recovery_point) == 1


# --- leaders ---


def test_who_takes_us_for_the_leader_is_told_who_it_is(data: DataHome) -> None:
    data.create()

    def resign() -> None:
        data.partition().leader = 9

    data.home.call(resign)
    topics = [{"name": "t", "partition_data": [{"index": 0, "records": records()}]}]
    response = data.client.call(ApiKey.PRODUCE, 12, acks=1, timeout=1000, topic_data=topics)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == 1  # the metadata names broker 1 as the leader
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [(1, data.home.port)]


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    with data_home(tmp_path) as data:
        data.create()
        data.append(b"a", b"b")
        data.home.restart()
        with data.home.client() as client:
            assert data.produce(records(b"c"), client=client).base_offset == 2
            assert offsets_in(data.fetch(client=client).records) == [0, 1, 2]
