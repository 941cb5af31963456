"""Plain requests, which compiled code takes, leave the same bytes as the general way: responses, logs and indexes."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import count, groupby
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from append_cases import all_appends
from log_maker import batch
from server.data.data_home import WITH_NAMES, DataHome, eventually, offsets_in
from server.harness import BrokerHome
from tidelog.model import StorageError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.frames import Frame
from tidelog.protocol.headers import write_request_header
from tidelog.protocol.messages import write_request
from tidelog.server.dispatcher import Dispatcher
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.connection import Reply
from tidelog.storage.fs.local_file import LocalFile

CASES = sorted(all_appends().items())
TOPICS_AT, PARTITIONS_AT = 7, 24
"""The positions of the numbers of topics and of partitions, plus one, in the body of a request with a topic id."""
OTHER_ID = UUID(int=77)
STORAGE_ERROR = b"\0\0\0\0\0\x38"
"""The end of a partition's number 0, and the error 56."""
NAMES = count()


class Noted:
    """The way of plain requests. A request that it leaves must be unchanged."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self.count = 0
        self.together = 0
        """The requests that were handled with the one before them."""

    def begin(self, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        before, waiting = bytes(frame), len(client.following)
        reply: Reply | Awaitable[Reply] = self._plain.begin(frame, client)
        self.count += reply is not None
        self.together += waiting - len(client.following)
        assert reply is not None or bytes(frame) == before
        return reply


class TwoBrokers:
    """Two brokers: the first takes requests by both ways, the second by the general way only."""

    def __init__(self, directory: Path) -> None:
        self.homes = [BrokerHome(directory / name, manual_time=True) for name in ("both", "general")]
        self.data = [DataHome(home, None) for home in self.homes]  # type: ignore[arg-type] # no client is needed
        self.clients: list[ClientConnection] = []
        assert self.homes[0]._time is not None
        self.homes[1]._time = self.homes[0]._time  # both brokers have one clock
        for home in self.homes:
            home.start()
            made = ClientConnection(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id="c")
            self.clients.append(made)
        self.noted = Noted(self.dispatcher(0).plain)
        self.dispatcher(0).plain = self.noted  # type: ignore[assignment] # the same method
        self.dispatcher(1).plain = None

    def dispatcher(self, number: int) -> Dispatcher:
        service = self.homes[number].broker.service
        assert isinstance(service, Dispatcher)
        return service

    def topic(self, name: str = "", **configs: str) -> Topic:
        name = name or f"t{next(NAMES)}"
        ids = [data.create(name, 2, **configs) for data in self.data]
        return Topic(self, name, ids)

    def send(self, number: int, frame: bytearray) -> object:
        async def handle() -> object:
            try:
                reply = self.dispatcher(number).begin(frame, self.clients[number])
                if isinstance(reply, Awaitable):
                    reply = await reply
            except Exception as error:
                return type(error), str(error)
            return None if reply is None else b"".join(map(bytes, reply))  # type: ignore[arg-type] # no part of a file

        return self.homes[number].run(handle)


class Topic:
    def __init__(self, brokers: TwoBrokers, name: str, ids: list[UUID]) -> None:
        self.brokers = brokers
        self.name = name
        self.ids = ids

    def produce(self, request: dict[str, Any], flips: Sequence[tuple[float, int]] = (), cut: int = 0) -> None:
        """Send a request, some bytes of it changed, to both brokers, and compare the responses."""
        outcomes = []
        for number, topic_id in enumerate(self.ids):
            frame = self.frame(topic_id, **request)
            id_at = frame.find(topic_id.bytes)
            for share, bits in flips:
                at = int(share * len(frame))
                if not id_at <= at < id_at + len(topic_id.bytes) or id_at < 0:
                    frame[at] ^= bits
            if cut:
                del frame[-cut:]
            outcome = self.brokers.send(number, frame)
            outcomes.append(without_id(outcome, topic_id))
            self.brokers.clients[number].throttle_ms = 0
        assert outcomes[0] == outcomes[1]

    def produce_together(self, requests: Sequence[dict[str, Any]]) -> int:
        """Send requests that the first broker gets together, and compare the responses. Return their number that was
        handled with the one before."""
        before = self.brokers.noted.together
        frames = deque(self.frame(self.ids[0], **request) for request in requests)
        self.brokers.clients[0].following = frames  # type: ignore[assignment] # frames are bytearrays
        together = []
        while frames:
            together.append(without_id(self.brokers.send(0, frames.popleft()), self.ids[0]))
        alone = [
            without_id(self.brokers.send(1, self.frame(self.ids[1], **request)), self.ids[1]) for request in requests
        ]
        self.brokers.clients[0].following = deque()
        assert joined(together) == joined(alone)
        return self.brokers.noted.together - before

    def frame(self, topic_id: UUID, **request: Any) -> bytearray:
        version, client_id = request["version"], request.get("client_id", "test")
        partitions = request.get("partitions") or [{"index": request.get("index", 0), "records": request["records"]}]
        name = request.get("topic") or self.name
        topics = [{"name": name, "topic_id": OTHER_ID if name != self.name else topic_id, "partition_data": partitions}]
        values = {
            "transactional_id": request.get("transactional_id"),
            "acks": request.get("acks", -1),
            "timeout": 1000,
            "topic_data": topics * request.get("topics", 1),
        }
        header = write_request_header(ApiKey.PRODUCE, version, request.get("correlation_id", 5), client_id)
        if "client" in request:
            header = header.replace(b"\x04test", bytes([len(request["client"])]) + request["client"])
        body = bytearray(write_request(ApiKey.PRODUCE, version, values))
        for at, value in request.get("bytes", {}).items():
            body[at] = value
        return bytearray(header + (body[:-1] + request["end"] if "end" in request else body))

    def assign(self, *others: int) -> None:
        """Give partition 0 more replicas, as newer metadata would."""
        for home, data in zip(self.brokers.homes, self.brokers.data, strict=True):
            home.call(partial(data.assign, *others, topic=self.name))

    def require_equal_files(self) -> None:
        for number in (0, 1):
            logs = [data.partition(self.name, number).log for data in self.brokers.data]
            assert logs[0].offsets() == logs[1].offsets()
            first, second = (
                {
                    path.name: path.read_bytes()
                    for path in sorted(log.directory.iterdir())
                    if path.name != "partition.metadata"
                }
                for log in logs
            )
            assert first == second


def joined(outcomes: Sequence[object]) -> list[object]:
    """Return outcomes with adjacent responses as one."""
    kinds = groupby(outcomes, key=lambda outcome: isinstance(outcome, bytes))
    return [b"".join(group) if are_bytes else list(group) for are_bytes, group in kinds]  # type: ignore[arg-type]


def without_id(outcome: object, topic_id: UUID) -> object:
    """Return an outcome that does not depend on the topic's id."""
    if isinstance(outcome, bytes):
        return outcome.replace(topic_id.bytes, bytes(16))
    return str(outcome).replace(str(topic_id), "ID")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    made = TwoBrokers(tmp_path_factory.mktemp("brokers"))
    yield made
    for home in made.homes:
        home.close()


good = st.builds(
    lambda values, sequence, producer_id: batch(0, values, sequence=sequence, producer_id=producer_id),
    st.lists(st.binary(max_size=30), min_size=1, max_size=4),
    st.integers(0, 3),
    st.sampled_from([-1, -1, 7]),
)
requests = st.fixed_dictionaries(
    {
        "version": st.sampled_from([9, 10, 11, 12, 13, 13]) | st.integers(3, 13),
        "records": good | good | st.sampled_from([data for _, data in CASES]) | st.just(None),
    },
    optional={
        "acks": st.sampled_from([-1, 1, 0, 2]),
        "index": st.sampled_from([0, 1, 9, -1]),
        "client_id": st.none() | st.text(max_size=3) | st.just("c" * 300),
        "correlation_id": st.integers(-(2**31), 2**31 - 1),
        "transactional_id": st.sampled_from([None, "x"]),
        "topic": st.sampled_from(["nowhere", "__consumer_offsets", "é", "n" * 249, "n" * 250]),
        "topics": st.sampled_from([0, 1, 2]),
    },
)
usual = st.fixed_dictionaries(
    {"version": st.integers(9, 13), "records": good, "acks": st.sampled_from([-1, 1]), "index": st.sampled_from([0, 1])}
)
flips = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=2)
plain_request = {"version": 13, "records": batch(0, [b"a"])}


@settings(deadline=None, max_examples=150)
@given(
    story=st.lists(
        st.tuples(usual, st.just([]), st.just(0))
        | st.tuples(usual, flips, st.sampled_from([0, 0, 1, 40]))
        | st.tuples(requests, st.just([]), st.just(0)),
        max_size=12,
    ),
    configs=st.sampled_from(
        [
            {},
            {},
            {},
            {"segment_bytes": "1048576"},
            {"message_timestamp_type": "LogAppendTime"},
            {"compression_type": "lz4"},
        ]
    ),
)
def test_both_ways_leave_the_same_bytes(
    brokers: TwoBrokers, story: list[tuple[dict[str, Any], list[tuple[float, int]], int]], configs: dict[str, str]
) -> None:
    topic, before = brokers.topic(**configs), brokers.noted.count
    topic.produce(plain_request)
    for request, changes, cut in story:
        topic.produce(request, changes, cut)
    topic.require_equal_files()
    event(f"{brokers.noted.count - before} plain requests")


@settings(deadline=None, max_examples=100)
@given(
    groups=st.lists(st.lists(usual | usual | usual | requests, min_size=1, max_size=10), max_size=4),
    configs=st.sampled_from([{}, {}, {"segment_bytes": "1048576"}, {"message_timestamp_type": "LogAppendTime"}]),
)
def test_requests_that_come_together_leave_the_same_bytes(
    brokers: TwoBrokers, groups: list[list[dict[str, Any]]], configs: dict[str, str]
) -> None:
    topic = brokers.topic(**configs)
    topic.produce(plain_request)
    together = sum(map(topic.produce_together, groups))
    topic.require_equal_files()
    event(f"{together} requests with the one before")


def numbered(number: int, sequence: int, size: int = 20, producer_id: int = 7, **request: Any) -> dict[str, Any]:
    records = batch(0, [b"v" * size], producer_id=producer_id, sequence=sequence)
    return {"version": 13, "correlation_id": number, "records": records, **request}


def test_requests_that_come_together_are_written_together(brokers: TwoBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, written = brokers.topic(), list[int]()
    monkeypatch.setattr(LocalFile, "pwrite_all", counted(LocalFile.pwrite_all, written))
    topic.produce(numbered(0, 0))
    assert topic.produce_together([numbered(number, number, 3000) for number in range(1, 6)]) == 4
    assert topic.produce_together([numbered(number, number) for number in range(6, 26)]) == 7 + 7 + 3
    assert topic.produce_together([plain_request] * 3) == 2
    assert written == [5, 8, 8, 4, 3]
    topic.require_equal_files()


@pytest.mark.parametrize(
    "second",
    [
        numbered(2, 2, index=1, producer_id=-1),
        numbered(2, 2, version=12),
        numbered(2, 3),
        numbered(2, 1),
        numbered(2, 0, producer_id=8),
        numbered(2, 2, acks=0),
        numbered(2, 2, cut=1),
        {"version": 13, "records": batch(0, [b"a"], producer_id=7, producer_epoch=1)},
        {"version": 13, "records": batch(0, [b"a"]) + batch(0, [b"b"])},
    ],
    ids=[
        "another partition",
        "a topic by its name",
        "a later sequence",
        "a sequence twice",
        "a new producer",
        "no acks",
        "half a frame",
        "another epoch",
        "two batches",
    ],
)
def test_requests_that_are_handled_alone(brokers: TwoBrokers, second: dict[str, Any]) -> None:
    topic = brokers.topic()
    topic.produce(numbered(0, 0))
    topic.produce_together([numbered(1, 1), second, numbered(3, 2)])
    topic.require_equal_files()


def test_a_run_ends_with_the_segment(brokers: TwoBrokers) -> None:
    topic = brokers.topic(segment_bytes="1048576")
    topic.produce(plain_request)
    large = {"version": 13, "records": batch(0, [b"v" * 200_000])}
    assert 0 < topic.produce_together([large] * 8) < 7
    topic.require_equal_files()


def test_a_run_has_one_producer(brokers: TwoBrokers) -> None:
    topic = brokers.topic()
    topic.produce(numbered(0, 0))
    topic.produce(numbered(0, 0, producer_id=8))
    mixed = [numbered(1, 1), numbered(2, 2), numbered(3, 1, producer_id=8), numbered(4, 3), numbered(5, 4)]
    assert topic.produce_together(mixed) == 2
    topic.require_equal_files()


def test_a_failed_write_fails_all_requests_of_a_run(brokers: TwoBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = brokers.topic()
    topic.produce(plain_request)
    log = brokers.data[0].partition(topic.name).log
    end, size = log.end_offset, log.size

    def fail(file: LocalFile, parts: Sequence[memoryview], position: int) -> None:
        file.pwrite(parts[0], position)
        raise StorageError("no space left")

    monkeypatch.setattr(LocalFile, "pwrite_all", fail)
    monkeypatch.setattr(brokers.dispatcher(0), "plain", brokers.noted._plain)
    frames = deque(topic.frame(topic.ids[0], **plain_request) for _ in range(3))
    brokers.clients[0].following = frames  # type: ignore[assignment] # frames are bytearrays
    replies = []
    while frames:
        replies.append(brokers.send(0, frames.popleft()))
    brokers.clients[0].following = deque()
    assert len(replies) == 3
    assert all(isinstance(reply, bytes) and STORAGE_ERROR in reply for reply in replies)
    assert (log.end_offset, log.segments[-1].size) == (end, size)
    assert not log.is_healthy


def counted(call: Callable[..., None], counts: list[int]) -> Callable[..., None]:
    def count_and_call(file: LocalFile, parts: Sequence[memoryview], position: int) -> None:
        counts.append(len(parts))
        call(file, parts, position)

    return count_and_call


def test_plain_responses(brokers: TwoBrokers) -> None:
    for name in ("short", "n" * 126, "n" * 127, "n" * 249):
        topic, before = brokers.topic(name), brokers.noted.count
        topic.produce(plain_request)  # writes the topic id
        topic.produce(plain_request | {"index": 1})
        for version in range(9, 14):
            for index in (0, 1, 1, 0):
                topic.produce(plain_request | {"version": version, "index": index, "acks": 1})
        topic.require_equal_files()
        assert brokers.noted.count == before + 20


@pytest.mark.parametrize(
    "request_",
    [
        {"version": 8},
        {"acks": 0},
        {"transactional_id": "x"},
        {"topics": 2},
        {"partitions": [{"index": 0, "records": batch(0, [b"a"])}, {"index": 1, "records": batch(0, [b"b"])}]},
        {"records": batch(0, [b"a"]) + batch(0, [b"b"])},
        {"records": batch(0, [b"a"])[:-1]},
        {"records": None},
        {"index": 2},
        {"topic": "nowhere"},
        {"transactional_id": ""},
        {"end": b"\1\0\1a"},
        {"end": b"\0\0"},
        {"bytes": {-1: 1}},
        {"bytes": {-2: 1}},
        {"bytes": {-3: 1}},
        {"bytes": {TOPICS_AT: 3}},
        {"bytes": {PARTITIONS_AT: 3}},
        {"client": b"\xff"},
    ],
    ids=str,
)
def test_requests_that_take_the_general_way(brokers: TwoBrokers, request_: dict[str, Any]) -> None:
    topic = brokers.topic()
    topic.produce(plain_request)
    before = brokers.noted.count
    topic.produce(plain_request | request_)
    assert brokers.noted.count == before
    topic.produce(plain_request)
    assert brokers.noted.count == before + 1
    topic.require_equal_files()


def test_an_internal_topic_takes_the_general_way(brokers: TwoBrokers) -> None:
    topic = brokers.topic("__consumer_offsets")
    topic.produce(plain_request)
    topic.produce(plain_request)
    topic.produce(plain_request | {"client_id": "__admin_client"})
    topic.produce(plain_request)
    topic.require_equal_files()


def test_partitions_that_take_the_general_way(brokers: TwoBrokers) -> None:
    topic, older_request = brokers.topic(), plain_request | {"version": 9}  # without the address of the leader
    topic.produce(older_request)
    topic.produce(older_request)
    before = brokers.noted.count
    for home, data in zip(brokers.homes, brokers.data, strict=True):
        home.run(data.partition(topic.name).hand_over)
    topic.produce(older_request)
    topic.assign(2)
    topic.produce(older_request | {"acks": 1})
    topic.assign()
    assert brokers.noted.count == before
    topic.produce(older_request)
    assert brokers.noted.count == before + 1
    topic.require_equal_files()


def test_a_topic_that_is_made_again_is_found_again(brokers: TwoBrokers) -> None:
    name = f"t{next(NAMES)}"
    for _ in range(2):
        topic, before = brokers.topic(name), brokers.noted.count
        for _ in range(3):
            topic.produce(plain_request | {"version": 12})
        assert brokers.noted.count >= before + 1
        topic.require_equal_files()
        for data in brokers.data:
            data.delete(name)
        topic.produce(plain_request | {"version": 12})


def test_other_settings_hold_from_the_next_request_on(brokers: TwoBrokers) -> None:
    topic = brokers.topic()
    for configs in ({}, {"max.message.bytes": "70"}, {"compression.type": "gzip"}):
        for data in brokers.data:
            log = data.partition(topic.name).log
            log.update_config(log.config.with_properties(configs))
        topic.produce(plain_request)
        topic.produce(plain_request)
    topic.require_equal_files()


def test_quotas_and_an_authorizer_see_every_request(brokers: TwoBrokers) -> None:
    topic = brokers.topic()
    topic.produce(plain_request)
    before = brokers.noted.count
    first, _ = (home.broker for home in brokers.homes)
    for watching in (first.quotas, first.authorizer):
        watching.is_on = True
        brokers.send(0, topic.frame(topic.ids[0], **plain_request))
        watching.is_on = False
    assert brokers.noted.count == before


def test_a_plain_request_completes_a_waiting_fetch(data: DataHome) -> None:
    data.create()
    data.append(b"a")  # writes the topic id
    with data.home.client() as reader:
        version, sent = data.send_fetch({("t", 0): 1}, client=reader, max_wait=60_000)
        eventually(lambda: data.home.call(lambda: len(data.partition().purgatory)) == 1)
        data.append(b"b")
        response = reader.receive(ApiKey.FETCH, version, sent)
    assert offsets_in(response.responses[0].partitions[0].records) == [1]


def test_plain_requests_are_counted(data: DataHome) -> None:
    data.create()
    for _ in range(3):
        data.append(b"a")
    counts = data.home.call(data.home.broker.server_metrics.counts)
    assert counts[ApiKey.PRODUCE] == {WITH_NAMES: 3}
