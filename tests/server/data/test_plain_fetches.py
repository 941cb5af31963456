"""Plain fetches, which compiled code takes, get the same responses as in the general way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from functools import partial
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from log_maker import BASE_TIME, batch, marker
from server.data.data_home import DataHome, eventually
from server.harness import BrokerHome
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.frames import Frame
from tidelog.protocol.headers import write_request_header
from tidelog.protocol.messages import write_request
from tidelog.server.dispatcher import Dispatcher
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.connection import Reply
from tidelog.storage.producer import AppendOrigin

TRANSACTIONAL = 0x10
OTHER_ID = UUID(int=77)
NAMES = count()
PARTITIONS = 3
LATE_MS = 600_000
UNKNOWN_TOPIC_ID = b"\0\x64"


class Fetches:
    """A broker, whose requests can take either way, with a topic at a time."""

    def __init__(self, data: DataHome) -> None:
        self.data = data
        self.name = f"f{next(NAMES)}"
        self.topic_id = data.create(self.name, PARTITIONS)
        self.plain_count = 0
        self.client = ClientConnection(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id="c")

    @property
    def dispatcher(self) -> Dispatcher:
        service = self.data.home.broker.service
        assert isinstance(service, Dispatcher)
        return service

    def partition(self, number: int) -> Any:
        return self.data.partition(self.name, number)

    # --- changes, on the event loop ---

    def change(self, kind: str, number: int, argument: int) -> None:
        self.data.home.call(partial(getattr(self, kind), number % PARTITIONS, argument))

    def append(self, number: int, size: int) -> None:
        values = [b"v" * (size % 700)] * (1 + size % 5)
        self.partition(number).append(bytearray(batch(0, values, timestamp=BASE_TIME)))

    def roll(self, number: int, _argument: int) -> None:
        self.partition(number).log.roll()

    def truncate(self, number: int, back: int) -> None:
        log = self.partition(number).log
        log.truncate_to(max(log.log_start_offset, log.end_offset - back))

    def raise_start(self, number: int, by: int) -> None:
        log = self.partition(number).log
        log.maybe_increment_log_start_offset(min(log.log_start_offset + by, log.high_watermark))

    def add_replica(self, number: int, _argument: int) -> None:
        self.data.assign(7, are_in_sync=True, topic=self.name, number=number)

    def begin_transaction(self, number: int, _argument: int) -> None:
        log = self.partition(number).log
        if 7 not in log.producers:
            guard = log.start_verification(7, 0, 0)
            data = batch(0, [b"t"], producer_id=7, attributes=TRANSACTIONAL)
            self.partition(number).append(bytearray(data), guard=guard)

    def abort(self, number: int, _argument: int) -> None:
        self.partition(number).append(bytearray(marker(0, committed=False)), origin=AppendOrigin.COORDINATOR)

    # --- requests ---

    def frame(self, offsets: list[tuple[int, int]], **request: Any) -> bytearray:
        """Return a request for numbers of partitions with distances to their log ends."""
        version = request.get("version", 16)
        partitions = [
            {
                "partition": number,
                "fetch_offset": self.end(number) - back,
                "partition_max_bytes": request.get("partition_max_bytes", 1 << 20),
                "current_leader_epoch": request.get("epoch", -1),
                "last_fetched_epoch": request.get("last_fetched_epoch", -1),
            }
            for number, back in offsets
        ]
        name, topic_id = request.get("topic", self.name), request.get("topic_id", self.topic_id)
        topics: list[dict[str, Any]] = [{"topic": name, "topic_id": topic_id, "partitions": partitions}]
        if request.get("is_split"):
            topics = [topics[0] | {"partitions": [one]} for one in partitions]
        values = {
            "topics": topics * request.get("times", 1),
            "replica_id": request.get("replica_id", -1),
            "max_wait": request.get("max_wait", 0),
            "min_bytes": request.get("min_bytes", 1),
            "max_bytes": request.get("max_bytes", 1 << 20),
            "isolation_level": request.get("isolation_level", 0),
            "session_id": request.get("session_id", 0),
            "session_epoch": request.get("session_epoch", -1),
            "rack_id": request.get("rack_id", ""),
            "forgotten_topics_data": request.get("forgotten", []),
        }
        header = write_request_header(
            ApiKey.FETCH, version, request.get("correlation_id", 5), request.get("id", "test")
        )
        return bytearray(header + write_request(ApiKey.FETCH, version, values))

    def end(self, number: int) -> int:
        return self.partition(number).log.end_offset if 0 <= number < PARTITIONS else 0

    def compare(self, frame: bytearray) -> bool:
        """Send a request both ways, and compare the responses. Return True if it was plain."""

        async def both() -> bool:
            plain, before = self.dispatcher.plain, bytes(frame)
            assert plain is not None
            found = plain.begin(frame, self.client)
            assert bytes(frame) == before
            if found is None:
                return False
            assert response(found) == response(await general(self.dispatcher, frame, self.client))
            return True

        is_plain = self.data.home.run(both)
        self.plain_count += is_plain
        return is_plain

    def begin(self, frame: bytearray) -> list[Waiting]:
        """Begin a request that waits, each way."""

        async def begin_both() -> list[Waiting]:
            plain, copy = self.dispatcher.plain, bytearray(frame)
            assert plain is not None
            clients = [ClientConnection(host="127.0.0.1", port=1, listener="P", connection_id=way) for way in "pg"]
            found = plain.begin(frame, clients[0])
            assert isinstance(found, asyncio.Future)
            return [
                Waiting(found, clients[0]),
                Waiting(asyncio.ensure_future(general(self.dispatcher, copy, clients[1])), clients[1]),
            ]

        return self.data.home.run(begin_both)

    def require_equal(self, waiting: list[Waiting]) -> bytes:
        """Return the response to a request that both ways have completed."""

        async def both() -> list[bytes]:
            return [response(await one.future) for one in waiting]

        first, second = self.data.home.run(both)
        assert first == second
        return first


class Waiting(NamedTuple):
    future: asyncio.Future[Reply]
    client: ClientConnection


async def are_done(waiting: list[Waiting]) -> bool:
    for _ in range(10):
        await asyncio.sleep(0)
    return all(one.future.done() for one in waiting)


async def general(dispatcher: Dispatcher, frame: Frame, client: ClientConnection) -> Reply:
    reply = dispatcher._begin_any(frame, client)
    return await reply if isinstance(reply, Awaitable) else reply


def response(reply: Any) -> bytes:
    return b"".join(part if isinstance(part, bytes) else part.data() for part in reply)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerHome]:
    with BrokerHome(tmp_path_factory.mktemp("broker"), manual_time=True) as made:
        yield made


@pytest.fixture
def fetches(home: BrokerHome) -> Fetches:
    return Fetches(DataHome(home, None))  # type: ignore[arg-type] # no client is needed


numbers = st.integers(0, PARTITIONS - 1)
backs = st.integers(0, 12)
changes = (
    st.tuples(st.just("append"), numbers, st.integers(0, 3000))
    | st.tuples(st.just("append"), numbers, st.integers(0, 3000))
    | st.tuples(st.sampled_from(["roll", "truncate", "raise_start", "begin_transaction", "abort"]), numbers, backs)
    | st.tuples(st.just("add_replica"), numbers, backs)
)
usual = st.fixed_dictionaries(
    {
        "offsets": st.lists(st.tuples(numbers, backs), min_size=1, max_size=3),
        "version": st.integers(12, 18),
        "isolation_level": st.sampled_from([0, 1]),
        "partition_max_bytes": st.sampled_from([1 << 20, 1 << 20, 5000, 300, 10, 0, -1]),
        "max_bytes": st.sampled_from([1 << 20, 1 << 20, 5000, 300, 1, 0, -1]),
        "is_split": st.booleans(),
    }
)
any_request = st.fixed_dictionaries(
    {"offsets": st.lists(st.tuples(st.integers(-1, PARTITIONS), st.integers(-2, 30)), max_size=4)},
    optional={
        "version": st.integers(4, 18),
        "isolation_level": st.sampled_from([0, 1, 2]),
        "min_bytes": st.sampled_from([-1, 0, 1, 2]),
        "epoch": st.sampled_from([-1, 0, 1]),
        "last_fetched_epoch": st.sampled_from([-1, 0]),
        "replica_id": st.sampled_from([-1, -2, 7]),
        "rack_id": st.text(max_size=3),
        "id": st.none() | st.text(max_size=3) | st.just("c" * 300),
        "session_id": st.sampled_from([0, 1]),
        "session_epoch": st.sampled_from([-1, 1]),
        "correlation_id": st.integers(-(2**31), 2**31 - 1),
        "topic": st.sampled_from(["nowhere", "__consumer_offsets", "é"]),
        "topic_id": st.just(OTHER_ID),
        "is_split": st.booleans(),
        "times": st.sampled_from([0, 1, 2]),
    },
)
flips = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=2)


@settings(deadline=None, max_examples=150)
@given(
    story=st.lists(
        changes
        | st.tuples(st.just("fetch"), usual, st.just([]), st.just(0))
        | st.tuples(st.just("fetch"), usual, st.just([]), st.just(0))
        | st.tuples(st.just("fetch"), usual, flips, st.sampled_from([0, 0, 1, 40]))
        | st.tuples(st.just("fetch"), any_request, st.just([]), st.just(0)),
        max_size=20,
    )
)
def test_both_ways_find_the_same(home: BrokerHome, story: list[tuple[Any, ...]]) -> None:
    fetches = Fetches(DataHome(home, None))  # type: ignore[arg-type] # no client is needed
    for kind, *arguments in story:
        if kind != "fetch":
            fetches.change(kind, *arguments)
            continue
        request, changed, missing = arguments
        frame = fetches.frame(request["offsets"], **{key: value for key, value in request.items() if key != "offsets"})
        for share, bits in changed:
            frame[int(share * len(frame))] ^= bits
        fetches.compare(frame[: len(frame) - missing])
    event(f"{min(fetches.plain_count, 8)} plain requests")


def test_plain_requests(fetches: Fetches) -> None:
    for size in (100, 0, 650, 4, 90):
        fetches.change("append", 0, size)
        fetches.change("append", 1, size)
    for version in range(12, 19):
        for isolation_level in (0, 1):
            options = {"version": version, "isolation_level": isolation_level}
            for offsets in ([(0, 0)], [(0, 3)], [(0, 2), (1, 4)], [(2, 0), (1, 1), (0, 0)]):
                assert fetches.compare(fetches.frame(offsets, **options)), (version, isolation_level, offsets)
    assert fetches.compare(fetches.frame([(0, 1)], epoch=fetches.partition(0).leader_epoch, rack_id="r"))


@pytest.mark.parametrize(
    "request_",
    [
        {"version": 11},
        {"replica_id": -2, "version": 14},
        {"replica_id": 7, "version": 14},
        {"min_bytes": 2},
        {"isolation_level": 2},
        {"session_id": 1},
        {"session_epoch": 0},
        {"last_fetched_epoch": 0},
        {"epoch": 9},
        {"topic_id": OTHER_ID},
        {"version": 12, "topic": "nowhere"},
        {"version": 12, "topic": "n" * 250},
        {"times": 0},
        {"times": 2},
        {"forgotten": [{"topic": "f", "topic_id": OTHER_ID, "partitions": [0]}]},
    ],
    ids=str,
)
def test_requests_that_take_the_general_way(fetches: Fetches, request_: dict[str, Any]) -> None:
    fetches.change("append", 0, 100)
    assert fetches.compare(fetches.frame([(0, 1)]))
    assert not fetches.compare(fetches.frame([(0, 1)], **request_))


@pytest.mark.parametrize(
    ("at", "bytes_"),
    [(-1, b"\1\1\x0d" + bytes(3) + b"\7" + bytes(9)), (-2, b"\0"), (-2, b"\2\xff"), (-4, b"\1"), (-5, b"\1")],
    ids=["a follower", "no rack", "a rack in other characters", "tags of a topic", "tags of a partition"],
)
def test_frames_that_take_the_general_way(fetches: Fetches, at: int, bytes_: bytes) -> None:
    frame = fetches.frame([(0, 0)])
    frame[at : at + 1 or None] = bytes_
    assert not fetches.compare(frame)


@pytest.mark.parametrize(
    ("offsets", "options"),
    [
        ([(0, -1)], {}),
        ([(0, 99)], {}),
        ([(PARTITIONS, 0)], {}),
        ([(0, 1), (0, 0)], {}),
        ([(0, 0), (1, 0)], {"is_split": True}),
        ([], {}),
    ],
    ids=["above the end", "below the start", "no partition", "twice", "a topic twice", "none"],
)
def test_partitions_that_take_the_general_way(
    fetches: Fetches, offsets: list[tuple[int, int]], options: dict[str, Any]
) -> None:
    fetches.change("append", 0, 100)
    assert not fetches.compare(fetches.frame(offsets, **options))


def test_logs_that_take_the_general_way(fetches: Fetches) -> None:
    committed = {"isolation_level": 1}
    for number in (0, 1, 2):
        fetches.change("append", number, 100)
    fetches.change("begin_transaction", 0, 0)
    for request in ({}, committed):
        assert not fetches.compare(fetches.frame([(0, 1)], **request)), "a transaction is open"
    fetches.change("abort", 0, 0)
    assert not fetches.compare(fetches.frame([(0, 1)], **committed)), "a transaction was aborted"
    assert fetches.compare(fetches.frame([(0, 1)]))
    fetches.change("roll", 0, 0)
    assert fetches.compare(fetches.frame([(0, 0)], **committed)), "the index of the new segment is empty"
    for _ in range(9):
        fetches.change("append", 1, 100)
        fetches.change("roll", 1, 0)
    assert not fetches.compare(fetches.frame([(1, 10)], **committed))
    assert fetches.compare(fetches.frame([(1, 1)], **committed))
    fetches.change("add_replica", 2, 0)
    fetches.change("append", 2, 0)
    assert fetches.compare(fetches.frame([(2, 1)])), "at the high watermark"
    assert fetches.compare(fetches.frame([(2, 2)])), "below the high watermark"
    assert not fetches.compare(fetches.frame([(2, 0)])), "above the high watermark"


def test_a_place_is_forgotten_after_a_truncation(fetches: Fetches) -> None:
    """Another batch begins at the position of the place then."""
    one = batch(0, [b"v" * 200], timestamp=BASE_TIME)
    two = next(
        made for size in range(200) if len(made := batch(0, [b"", b"v" * size], timestamp=BASE_TIME)) == len(one)
    )

    def append_four(data: bytes) -> None:
        for _ in range(4):
            fetches.partition(0).append(bytearray(data))

    fetches.data.home.call(partial(append_four, one))
    assert fetches.compare(fetches.frame([(0, 1)], partition_max_bytes=len(one)))
    fetches.change("truncate", 0, 3)
    fetches.data.home.call(partial(append_four, two))
    assert fetches.compare(fetches.frame([(0, 5)]))


def test_only_the_first_batch_exceeds_the_maximum(fetches: Fetches) -> None:
    for number in (0, 1):
        fetches.change("append", number, 500)
    for offsets in ([(0, 1), (1, 1)], [(1, 0), (0, 1)], [(1, 1), (0, 0)]):
        assert fetches.compare(fetches.frame(offsets, max_bytes=10))


# --- waiting ---


def test_records_complete_a_request_that_waits(fetches: Fetches) -> None:
    waiting = fetches.begin(fetches.frame([(0, 0), (1, 0)], max_wait=LATE_MS))
    fetches.change("append", 2, 100)
    assert not any(one.future.done() for one in waiting)
    fetches.change("append", 1, 100)
    assert b"v" * 100 in fetches.require_equal(waiting)
    assert not any(len(fetches.partition(number).purgatory) for number in range(PARTITIONS))


def test_a_request_ends_with_its_time(home: BrokerHome, fetches: Fetches) -> None:
    waiting = fetches.begin(fetches.frame([(0, 0)], max_wait=5000))
    home.advance(4_000)
    assert not any(one.future.done() for one in waiting)
    home.advance(2_000)
    fetches.require_equal(waiting)
    assert not len(fetches.partition(0).purgatory)


def test_the_general_way_takes_over_for_the_rest_of_the_time(home: BrokerHome, fetches: Fetches) -> None:
    waiting = fetches.begin(fetches.frame([(0, 0)], max_wait=5000, isolation_level=1))
    home.advance(3_000)
    fetches.change("begin_transaction", 0, 0)
    assert not any(one.future.done() for one in waiting)
    home.advance(1_900)
    assert not any(one.future.done() for one in waiting)
    home.advance(200)
    assert home.run(partial(are_done, waiting))
    fetches.require_equal(waiting)


def test_the_general_way_takes_over_after_a_deletion(fetches: Fetches) -> None:
    waiting = fetches.begin(fetches.frame([(0, 0)], max_wait=LATE_MS))
    fetches.data.delete(fetches.name)
    assert UNKNOWN_TOPIC_ID in fetches.require_equal(waiting)


@pytest.mark.parametrize("is_general", [False, True], ids=["plain", "taken over"])
def test_a_closed_connection_ends_the_wait(home: BrokerHome, fetches: Fetches, *, is_general: bool) -> None:
    waiting = fetches.begin(fetches.frame([(0, 0)], max_wait=LATE_MS, isolation_level=1))
    if is_general:
        fetches.change("begin_transaction", 0, 0)

    def close() -> None:
        for one in waiting:
            assert one.client.on_connection_closed is not None
            one.client.on_connection_closed()

    home.call(close)
    eventually(lambda: all(one.future.cancelled() for one in waiting))
    eventually(lambda: home.call(lambda: not len(fetches.partition(0).purgatory)))


def test_a_listener_that_closes_ends_the_wait(home: BrokerHome, fetches: Fetches) -> None:
    waiting = fetches.begin(fetches.frame([(0, 0)], max_wait=LATE_MS, isolation_level=1))
    fetches.change("begin_transaction", 0, 0)
    home.call(lambda: [one.future.cancel() for one in waiting])
    eventually(lambda: home.call(lambda: not len(fetches.partition(0).purgatory)))


def test_plain_fetches_are_counted_once(data: DataHome) -> None:
    data.create()
    data.append(b"a")
    for offset in (0, 1, 5):
        data.fetch(offset=offset)
    counts = data.home.call(data.home.broker.server_metrics.counts)
    assert counts[ApiKey.FETCH] == {12: 3}
