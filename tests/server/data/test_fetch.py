"""Fetch over the wire: the records, their amount, delays, errors and kinds of readers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from log_maker import marker
from server.data.data_home import DataHome, eventually, offsets_in, records
from server.harness import WireClient
from server.network.listener_harness import sendfile_counts
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.fetching import partition_reads
from tidelog.storage.producer import AppendOrigin

COMMITTED = 1
SOON_MS, LATE_MS = 1, 600_000
TRANSACTIONAL, CONTROL = 0x10, 0x20


def partitions_of(response: Struct) -> list[Struct]:
    return [answer for topic in response.responses for answer in topic.partitions]


# --- records ---


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version(data: DataHome, version: int) -> None:
    topic_id = data.create()
    data.append(b"a", b"b")
    partitions = [{"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1000}]
    response = data.client.call(
        ApiKey.FETCH,
        version,
        max_wait=0,
        min_bytes=1,
        max_bytes=1000,
        session_epoch=-1,
        replica_id=-1,
        topics=[{"topic": "t", "topic_id": topic_id, "partitions": partitions}],
    )
    (topic,) = response.responses
    assert (topic.topic, topic.topic_id) == (("t", None) if version < 13 else ("", topic_id))
    (answer,) = topic.partitions
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 2, 2)
    assert offsets_in(answer.records) == [0, 1]  # the complete batch
    assert answer.aborted_transactions is None


@pytest.mark.parametrize("copied_bytes", [0, 1 << 20], ids=["from the file", "copied"])
def test_records_come_as_they_are_stored(data: DataHome, monkeypatch: pytest.MonkeyPatch, copied_bytes: int) -> None:
    """Large responses go from the file to the socket with ``sendfile``. Small responses are copied."""
    monkeypatch.setattr(partition_reads, "COPIED_BYTES", copied_bytes)
    counts = sendfile_counts(monkeypatch)
    data.create(partitions=2)
    for number in range(50):
        data.append(b"value %d" % number, b"x" * 1000)
    path = data.home.call(lambda: data.partition().log.directory)
    stored = (path / "00000000000000000000.log").read_bytes()
    assert data.fetch().records == stored
    second = partitions_of(data.fetch_many({("t", 0): 90, ("t", 1): 0}))[0].records
    assert offsets_in(second) == list(range(90, 100))
    assert stored.endswith(second)
    assert sum(counts) == (0 if copied_bytes else len(stored) + len(second))


def test_a_position_outside_of_the_log(data: DataHome) -> None:
    data.create()
    data.append(b"a")
    assert data.fetch(offset=1).records == b""
    for offset in (2, -1, 2**63 - 1):
        answer = data.fetch(offset=offset)
        assert (answer.error_code, answer.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_what_is_not_here(data: DataHome) -> None:
    data.create()
    assert data.fetch("nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert data.fetch(number=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    response = data.fetch_many({("t", 0): 0}, version=13)  # no topic has this id
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_client_of_another_epoch(data: DataHome) -> None:
    data.create()
    epoch = data.leader_epoch
    assert data.fetch(current_leader_epoch=epoch).error_code == 0
    assert data.fetch(current_leader_epoch=epoch - 1 if epoch else epoch + 1).error_code in (
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    )
    assert data.fetch(current_leader_epoch=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_log_that_parts_from_ours(data: DataHome) -> None:
    data.create()
    data.append(b"a", b"b")
    epoch = data.leader_epoch
    answer = data.fetch(offset=7, last_fetched_epoch=epoch)
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (epoch, 2)
    assert answer.error_code == 0


def test_an_old_client_cannot_read_zstd(data: DataHome) -> None:
    data.create(compression_type="zstd")
    assert data.fetch(version=9).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert data.fetch(version=10).error_code == 0


def test_a_storage_error_is_something_else_to_old_clients(data: DataHome) -> None:
    data.create()
    data.home.call(lambda: data.home.broker.logs.delete(data.partition().topic_partition))
    assert data.fetch(version=5).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data.fetch(version=6).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_who_takes_us_for_the_leader_is_told_who_it_is(data: DataHome) -> None:
    topic_id = data.create()

    def begin_another_epoch() -> None:
        data.partition().leader_epoch += 1

    epoch = data.leader_epoch
    data.home.call(begin_another_epoch)
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": epoch}
    partitions = [asked]
    response = data.client.call(ApiKey.FETCH, 16, max_wait=0, topics=[{"topic_id": topic_id, "partitions": partitions}])
    answer = response.responses[0].partitions[0]
    assert (answer.error_code, answer.current_leader.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, 1)
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [(1, data.home.port)]


# --- transactions ---


def test_committed_readers_stop_at_the_last_stable_offset_and_hear_of_aborts(data: DataHome) -> None:
    data.create()

    def append(batch: bytes, origin: AppendOrigin) -> None:
        partition = data.partition()
        guard = partition.log.start_verification(7, 0, 0)
        partition.append(bytearray(batch), origin=origin, guard=guard)

    sent = records(b"a", b"b", producer_id=7, sequence=0, attributes=TRANSACTIONAL)
    data.home.call(lambda: append(sent, AppendOrigin.CLIENT))
    open_ = data.fetch(isolation_level=COMMITTED)
    assert (open_.records, open_.last_stable_offset, open_.aborted_transactions) == (b"", 0, ())
    assert offsets_in(data.fetch().records) == [0, 1]
    data.home.call(lambda: append(marker(0, committed=False), AppendOrigin.COORDINATOR))
    ended = data.fetch(isolation_level=COMMITTED)
    assert offsets_in(ended.records) == [0, 1, 2]
    assert [(one.producer_id, one.first_offset) for one in ended.aborted_transactions] == [(7, 0)]


def test_a_fetch_that_waits_gets_the_aborted_transaction(data: DataHome) -> None:
    data.create()

    def append_transaction() -> None:
        partition = data.partition()
        guard = partition.log.start_verification(7, 0, 0)
        sent = records(b"a", b"b", producer_id=7, sequence=0, attributes=TRANSACTIONAL)
        partition.append(bytearray(sent), guard=guard)

    with data.home.client() as reader:
        sent = begin(data, reader, isolation_level=COMMITTED)
        data.home.call(append_transaction)
        assert is_waiting(data), "nothing is committed yet"
        data.home.call(
            lambda: data.partition().append(bytearray(marker(0, committed=False)), origin=AppendOrigin.COORDINATOR)
        )
        response = reader.receive(ApiKey.FETCH, *sent)
    answer = response.responses[0].partitions[0]
    assert offsets_in(answer.records) == [0, 1, 2]
    assert [(one.producer_id, one.first_offset) for one in answer.aborted_transactions] == [(7, 0)]


# --- amounts ---


def test_no_more_than_the_client_wants(data: DataHome) -> None:
    data.create(partitions=2)
    for number in (0, 1):
        for _ in range(10):
            data.append(b"x" * 100, number=number)
    size = len(data.fetch().records)
    both = {("t", 0): 0, ("t", 1): 0}
    one, two = partitions_of(data.fetch_many(both, max_bytes=size))
    assert (len(one.records), len(two.records)) == (size, 0)
    one, two = partitions_of(data.fetch_many(both, partition_max_bytes=size // 2))
    assert (len(one.records), len(two.records)) == (size // 2, size // 2)


def test_a_batch_that_is_larger_than_wanted_comes_whole_if_it_is_the_first(data: DataHome) -> None:
    data.create(partitions=2)
    for number in (0, 1):
        data.append(b"x" * 1000, number=number)
    both = {("t", 0): 0, ("t", 1): 0}
    one, two = partitions_of(data.fetch_many(both, max_bytes=10))
    assert (offsets_in(one.records), two.records) == ([0], b"")
    assert two.high_watermark == 1


def test_no_more_than_the_broker_gives(data: DataHome) -> None:
    data.create()
    for _ in range(4):
        data.append(b"x" * 1000)
    data.home.call(lambda: data.home.broker.config)
    assert len(data.fetch(max_bytes=2**31 - 1, partition_max_bytes=2**31 - 1).records) > 4000
    assert data.fetch(max_bytes=-5, partition_max_bytes=-5).error_code == 0


# --- delays ---


def is_waiting(data: DataHome) -> bool:
    return bool(data.home.call(lambda: len(data.partition().purgatory)))


def begin(data: DataHome, reader: WireClient, **options: int) -> tuple[int, int]:
    """Send a fetch and wait until it is delayed."""
    sent = data.send_fetch({("t", 0): 0}, client=reader, max_wait=LATE_MS, **options)
    eventually(lambda: is_waiting(data))
    return sent


def test_an_append_wakes_those_who_wait(data: DataHome) -> None:
    data.create()
    with data.home.client() as reader:
        version, sent = begin(data, reader)
        data.append(b"a")
        response = reader.receive(ApiKey.FETCH, version, sent)
        assert offsets_in(response.responses[0].partitions[0].records) == [0]
    assert not is_waiting(data)


def test_who_waits_for_more_is_woken_when_there_is_more(data: DataHome) -> None:
    data.create()
    with data.home.client() as reader:
        version, sent = begin(data, reader, min_bytes=150)
        data.append(b"x" * 10)
        assert is_waiting(data)
        data.append(b"x" * 10)
        response = reader.receive(ApiKey.FETCH, version, sent)
        assert offsets_in(response.responses[0].partitions[0].records) == [0, 1]


def test_who_waited_long_enough_gets_what_there_is(data: DataHome) -> None:
    data.create()
    data.append(b"a")
    answer = data.fetch(max_wait=SOON_MS, min_bytes=10_000)
    assert offsets_in(answer.records) == [0]
    assert data.fetch(offset=1, max_wait=SOON_MS).records == b""


def test_a_new_segment_is_reason_enough(data: DataHome) -> None:
    data.create()
    with data.home.client() as reader:
        version, sent = begin(data, reader, min_bytes=10_000)
        data.append(b"a")
        assert is_waiting(data)
        data.home.call(lambda: data.partition().log.roll())
        data.append(b"b")
        response = reader.receive(ApiKey.FETCH, version, sent)
        assert offsets_in(response.responses[0].partitions[0].records) == [0]


def test_who_waits_for_a_topic_that_is_deleted_is_told(data: DataHome) -> None:
    data.create()
    with data.home.client() as reader:
        version, sent = begin(data, reader)
        data.delete()
        response = reader.receive(ApiKey.FETCH, version, sent)
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_error_does_not_wait_but_an_unknown_topic_does(data: DataHome) -> None:
    data.create()
    assert data.fetch(offset=5, max_wait=LATE_MS).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert data.fetch("nowhere", max_wait=LATE_MS).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with data.home.client() as reader:
        version, sent = data.send_fetch({("nowhere", 0): 0, ("t", 0): 0}, client=reader, max_wait=LATE_MS)
        eventually(lambda: is_waiting(data))
        data.append(b"a")
        response = reader.receive(ApiKey.FETCH, version, sent)
        assert [topic.partitions[0].error_code for topic in response.responses] == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            0,
        ]


# --- sessions ---


def test_a_session_over_the_wire(data: DataHome) -> None:
    data.create(partitions=2)
    first = data.fetch_many({("t", 0): 0, ("t", 1): 0}, session_epoch=0)
    assert first.session_id
    data.append(b"a", number=1)
    second = data.fetch_many({}, session_id=first.session_id, session_epoch=1)
    (topic,) = second.responses
    assert [(answer.partition_index, offsets_in(answer.records)) for answer in topic.partitions] == [(1, [0])]
    third = data.fetch_many({("t", 1): 1}, session_id=first.session_id, session_epoch=2)
    assert (third.session_id, third.responses) == (first.session_id, ())
    wrong = data.fetch_many({}, session_id=first.session_id, session_epoch=2)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


# --- followers ---


def test_a_follower_reads_to_the_end_and_moves_the_high_watermark(data: DataHome) -> None:
    data.create()

    data.home.call(lambda: data.assign(7, are_in_sync=True))
    data.produce(records(b"a"), acks=1)
    assert data.fetch().records == b""
    assert offsets_in(data.fetch(replica_id=7).records) == [0]
    assert data.fetch(offset=1, replica_id=7).records == b""
    assert offsets_in(data.fetch().records) == [0]
    assert data.fetch(replica_id=8).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_of_one_partition_gets_an_error_for_the_other(data: DataHome) -> None:
    data.create(partitions=2)
    for number in (0, 1):
        data.append(b"a", number=number)
    data.home.call(lambda: data.assign(7, are_in_sync=True, number=0))
    both = {("t", number): 1 for number in (0, 1)}
    one, two = partitions_of(data.fetch_many(both, replica_id=7, current_leader_epoch=data.leader_epoch))
    assert (one.error_code, two.error_code) == (ErrorCode.NONE, ErrorCode.UNKNOWN_LEADER_EPOCH)
    known = data.home.call(lambda: [list(data.partition(number=number).in_sync.followers) for number in (0, 1)])
    assert known == [[7], []]


def test_a_follower_without_news_waits_although_it_lacks_the_high_watermark(data: DataHome) -> None:
    data.create()
    data.home.call(lambda: data.assign(7, are_in_sync=True))
    data.produce(records(b"a"), acks=1)
    assert data.fetch(offset=1, replica_id=7).high_watermark == 0  # as it was before this fetch
    with data.home.client() as follower:
        sent = data.send_fetch({("t", 0): 1}, client=follower, replica_id=7, max_wait=LATE_MS)
        eventually(lambda: is_waiting(data))
        data.produce(records(b"b"), acks=1)
        response = follower.receive(ApiKey.FETCH, *sent)
        assert offsets_in(response.responses[0].partitions[0].records) == [1]


@pytest.mark.parametrize(
    ("reader", "names_epoch", "code"),
    [
        ({"version": 10}, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"version": 12}, True, ErrorCode.FENCED_LEADER_EPOCH),
        ({"version": 12, "replica_id": 7}, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
    ids=["an old consumer", "a new consumer", "a follower"],
)
def test_a_fetch_that_waits_ends_when_another_broker_leads(
    data: DataHome, reader: dict[str, int], code: ErrorCode, *, names_epoch: bool
) -> None:
    data.create()
    data.home.call(lambda: data.assign(7, are_in_sync=True))
    epoch = data.leader_epoch if names_epoch else -1

    def lead_elsewhere() -> None:
        state = data.home.broker.metadata.image.topics["t"].partitions[0]
        after = replace(state, replicas=(state.leader, 7), leader=7, leader_epoch=state.leader_epoch + 1)
        data.partition().update(after)

    with data.home.client() as client:
        version, sent = begin(data, client, current_leader_epoch=epoch, **reader)
        data.home.call(lead_elsewhere)
        response = client.receive(ApiKey.FETCH, version, sent)
        assert response.responses[0].partitions[0].error_code == code


def test_a_fetch_waits_no_longer_than_its_client(data: DataHome) -> None:
    data.create()
    with data.home.client() as client:
        data.send_fetch({("t", 0): 0}, client=client, max_wait=LATE_MS)
        data.home.wait_for(lambda: len(data.partition().purgatory) == 1)
    data.home.wait_for(lambda: not data.partition().purgatory)
