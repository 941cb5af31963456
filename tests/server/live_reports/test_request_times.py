"""The measured service: counts, bytes and durations of requests, without a change of their responses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from tidelog.kernel import RECENT
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.frames import Frame
from tidelog.protocol.headers import write_request_header
from tidelog.server.live_reports.request_times import RequestTimes
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.connection import Reply
from tidelog.server.network.send_queue import Part


class Service:
    """A service whose response a test sets."""

    def __init__(self, respond: Callable[[], Reply | Awaitable[Reply]]) -> None:
        self.respond = respond

    def begin(self, _frame: Frame, _client: ClientConnection) -> Reply | Awaitable[Reply]:
        return self.respond()


def client() -> ClientConnection:
    return ClientConnection(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id="1")


def frame(api: ApiKey = ApiKey.PRODUCE, client_id: str | None = "shop", body: bytes = b"body") -> bytearray:
    return bytearray(write_request_header(api, 3, 7, client_id) + body)


def test_a_request_with_an_immediate_response() -> None:
    times, one, request = RequestTimes(), client(), frame()
    reply: list[Part] = [b"1234", bytearray(b"56")]
    measured = times.measured(Service(lambda: reply))
    assert measured.begin(request, one) is reply
    assert measured.begin(memoryview(request), one) is reply
    found = times.apis[ApiKey.PRODUCE]
    assert (found.count, found.done, found.waiting) == (2, 2, 0)
    assert (found.bytes_in, found.bytes_out) == (2 * len(request), 12)
    assert 0 < found.local_s == found.total_s
    assert (one.requests.count, one.requests.bytes_in, one.requests.bytes_out) == (2, 2 * len(request), 12)
    assert (one.client_id, one.requests.api) == ("shop", ApiKey.PRODUCE)


def test_requests_that_are_handled_together() -> None:
    times, one, first = RequestTimes(), client(), frame()
    one.following.extend([frame(body=b"longer body"), frame(body=b""), frame()])
    sizes = [len(first), *map(len, one.following)]

    def respond() -> Reply:
        one.following.popleft()
        one.following.popleft()
        return [b"123456"]

    times.measured(Service(respond)).begin(first, one)
    found = times.apis[ApiKey.PRODUCE]
    assert (found.count, found.done, len(one.following)) == (3, 3, 1)
    assert (found.bytes_in, found.bytes_out) == (sum(sizes[:3]), 6)
    assert (one.requests.count, one.requests.bytes_in, one.requests.bytes_out) == (3, sum(sizes[:3]), 6)


def test_the_wait_for_a_response_counts_in_the_total_time_only() -> None:
    async def run() -> None:
        times, one = RequestTimes(), client()
        ready = asyncio.Event()

        async def respond() -> Reply:
            await ready.wait()
            return [b"123"]

        waiting = times.measured(Service(respond)).begin(frame(ApiKey.FETCH), one)
        assert isinstance(waiting, asyncio.Future)
        found = times.apis[ApiKey.FETCH]
        await asyncio.sleep(0.02)
        assert (found.count, found.done, found.waiting) == (1, 0, 1)
        ready.set()
        assert await waiting == [b"123"]
        assert (found.done, found.waiting, found.bytes_out, one.requests.bytes_out) == (1, 0, 3, 3)
        assert found.total_s >= 0.02 > found.local_s
        assert found.longest_s == found.percentile_s(0.99) == found.total_s

    asyncio.run(run())


def test_a_request_that_is_cancelled_or_fails_waits_no_longer() -> None:
    async def run() -> None:
        times = RequestTimes()

        async def fail() -> Reply:
            raise ValueError("a bug")

        failing = times.measured(Service(fail)).begin(frame(), client())
        assert failing is not None
        with pytest.raises(ValueError, match="a bug"):
            await failing  # type: ignore[misc] # not a list
        slow = times.measured(Service(lambda: asyncio.sleep(60, None))).begin(frame(), client())
        assert isinstance(slow, asyncio.Future)
        slow.cancel()
        await asyncio.sleep(0.01)
        found = times.apis[ApiKey.PRODUCE]
        assert (found.count, found.done, found.waiting) == (2, 0, 0)

    asyncio.run(run())


def test_a_throttle_time_after_the_response() -> None:
    times, one = RequestTimes(), client()

    def respond() -> Reply:
        one.throttle_ms = 250
        return [b""]

    times.measured(Service(respond)).begin(frame(), one)
    found = times.apis[ApiKey.PRODUCE]
    assert (found.throttled, found.throttle_ms) == (1, 250)


@pytest.mark.parametrize("bytes_", [b"", b"\x00", b"\x7f\xff\x00\x00", b"\xff\xff" + bytes(20)])
def test_a_frame_that_is_no_known_request_is_left_to_the_service(bytes_: bytes) -> None:
    times = RequestTimes()
    measured = times.measured(Service(lambda: [b"r"]))
    assert measured.begin(bytearray(bytes_), client()) == [b"r"]
    assert times.apis == {}


@pytest.mark.parametrize(
    ("request_", "client_id"),
    [
        (frame(client_id=None), None),
        (frame(client_id=""), ""),
        (frame(client_id="x" * 300), "x" * 200),
        (bytearray(b"\x00\x00\x00\x03\x00\x00\x00\x01\x7f\xffshort"), None),
        (bytearray(b"\x00\x00\x00\x03"), None),
        (bytearray(b"\x00\x00\x00\x03\x00\x00\x00\x01\x00\x02\xff\xfe"), "��"),
    ],
)
def test_the_client_id_of_a_hostile_header(request_: bytearray, client_id: str | None) -> None:
    one = client()
    RequestTimes().measured(Service(lambda: [b""])).begin(request_, one)
    assert one.client_id == client_id


def test_percentiles_are_those_of_the_last_requests() -> None:
    times = RequestTimes()
    measured = times.measured(Service(lambda: [b""]))
    one = client()
    for _ in range(RECENT + 10):
        measured.begin(frame(), one)

    def respond() -> Reply:
        time.sleep(0.01)
        return [b""]

    slow = times.measured(Service(respond))
    for _ in range(20):
        slow.begin(frame(), one)
    found = times.apis[ApiKey.PRODUCE]
    assert found.percentile_s(0.99) >= 0.01 > found.percentile_s(0.5)


def test_the_last_minute_forgets_what_is_older(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("tidelog.server.live_reports.request_times.perf_counter", lambda: now_s)
    times = RequestTimes()
    measured = times.measured(Service(lambda: [b"12"]))
    one = client()
    for _ in range(30):
        measured.begin(frame(), one)
    now_s += 10
    assert times.rates(ApiKey.PRODUCE).last_minute == 30
    assert times.rates(ApiKey.PRODUCE).requests == 3
    for _ in range(13):
        times.tick()
        now_s += 5
    measured.begin(frame(), one)
    rates = times.rates(ApiKey.PRODUCE)
    assert rates.last_minute == 1
    assert rates.bytes_out == 2 / 65
