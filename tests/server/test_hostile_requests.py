"""The broker survives invalid requests, and reports only errors that it intends.

A failure is a line with a stack trace, another client without a response, or memory that grows with announced sizes.
Every API with a handler is tried. The examples are the same in every run. ``make soak`` draws new ones.
"""

from __future__ import annotations

import gc
import logging
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.harness import BrokerHome, WireClient, running_broker
from server.message_strategies import requests
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.frames import length_prefix
from tidelog.protocol.headers import write_request_header
from tidelog.protocol.messages import write_request
from tidelog.server.handlers.api_groups import API_GROUPS

QUICK = settings(
    max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
LONG = settings(QUICK, max_examples=300, derandomize=False)
ANNOUNCED = 100_000_000


class Watched:
    """A broker, a well-behaved client, and the log lines that show a bug of the broker."""

    def __init__(self, home: BrokerHome) -> None:
        self.home = home
        self._good = home.client()
        self._bugs = _BugHandler()
        gc.collect()  # garbage of earlier tests logs its warnings now, not during these tests
        logging.getLogger().addHandler(self._bugs)

    def survives(self, *sent: bytes) -> None:
        """Send pieces on a connection and close it. The well-behaved client is served whatever comes back."""
        with self.home.client() as bad:
            try:
                for piece in sent:
                    bad.socket.sendall(piece)
            except ConnectionError:
                pass
            self.is_well()

    def is_well(self) -> None:
        assert self._good.call(ApiKey.API_VERSIONS, 0).error_code == 0
        assert not self._bugs.lines, "\n".join(self._bugs.lines)

    def close(self) -> None:
        logging.getLogger().removeHandler(self._bugs)
        self._good.close()


class _BugHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.lines.append(self.format(record))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    directory: Path = tmp_path_factory.mktemp("hostile")
    with running_broker(directory, offsets_topic_num_partitions="2", transaction_state_log_num_partitions="2") as home:
        watched = Watched(home)
        try:
            yield watched
        finally:
            watched.close()


def framed(*parts: bytes) -> bytes:
    return length_prefix(parts) + b"".join(parts)


@st.composite
def valid_requests(draw: st.DrawFn, api: ApiKey) -> bytes:
    """Draw a frame with any advertised version and any values that it can hold."""
    version = draw(st.integers(min_value=VERSIONS[api].oldest, max_value=VERSIONS[api].latest))
    client_id = draw(st.sampled_from([None, "", "me", "x" * 1000]))
    body = write_request(api, version, draw(requests(api, version)))
    return framed(write_request_header(api, version, draw(st.integers(0, 2**31 - 1)), client_id), body)


@st.composite
def damaged_requests(draw: st.DrawFn, api: ApiKey) -> bytes:
    """Draw a valid request and flip some of its bits. Its length and its API stay the same."""
    frame = bytearray(draw(valid_requests(api)))
    places = st.integers(min_value=6 * 8, max_value=len(frame) * 8 - 1)
    for place in draw(st.lists(places, min_size=1, max_size=4)):
        frame[place // 8] ^= 1 << place % 8
    return bytes(frame)


def try_requests(broker: Watched, apis: list[ApiKey], effort: settings) -> None:
    """Try any values, flipped bits, requests that end too early, and connections that end within a frame."""

    @effort
    @given(st.sampled_from(apis).flatmap(valid_requests))
    def values(frame: bytes) -> None:
        broker.survives(frame)

    @effort
    @given(st.sampled_from(apis).flatmap(damaged_requests))
    def damaged(frame: bytes) -> None:
        broker.survives(frame)

    @effort
    @given(st.sampled_from(apis).flatmap(valid_requests), st.floats(0, 1, exclude_max=True))
    def cut(frame: bytes, part: float) -> None:
        end = int(len(frame) * part)
        broker.survives(framed(frame[4:end]))
        broker.survives(frame[:end])

    for run in (values, damaged, cut):
        run()


def try_noise(broker: Watched, effort: settings) -> None:
    @effort
    @given(st.lists(st.binary(max_size=200), max_size=4), st.booleans())
    def run(pieces: list[bytes], are_framed: bool) -> None:
        broker.survives(*(framed(piece) if are_framed else piece for piece in pieces))

    run()


def test_requests_of_all_apis(broker: Watched) -> None:
    try_requests(broker, sorted(API_GROUPS), QUICK)


def test_noise(broker: Watched) -> None:
    try_noise(broker, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("api", sorted(API_GROUPS), ids=lambda api: api.name)
def test_requests_of_one_api_for_long(broker: Watched, api: ApiKey) -> None:
    try_requests(broker, [api], LONG)


@pytest.mark.slow
def test_noise_for_long(broker: Watched) -> None:
    try_noise(broker, settings(LONG, max_examples=20_000))


def test_announced_sizes_take_no_memory(broker: Watched) -> None:
    many = [broker.home.client() for _ in range(50)]
    try:
        for one in many:
            one.socket.sendall(struct.pack(">i", ANNOUNCED) + b"\0" * 1000)
        (listener,) = broker.home.broker.listeners
        broker.home.wait_for(lambda: sum(one.request_bytes > 0 for one in listener.connections) == len(many))
        assert broker.home.call(lambda: listener.request_bytes) <= 50 * 64 * 1024
        broker.is_well()
    finally:
        for one in many:
            one.close()


def test_a_size_beyond_the_limit_ends_the_connection(broker: Watched) -> None:
    for length in (104_857_601, 2**31 - 1, -1, -(2**31)):
        with broker.home.client() as bad:
            bad.socket.sendall(struct.pack(">i", length))
            assert bad.is_closed_by_broker()
    broker.is_well()


def test_a_client_that_sends_ahead_and_reads_nothing_holds_up_nobody(broker: Watched) -> None:
    with broker.home.client() as bad:
        bad.socket.setblocking(False)
        frame = framed(write_request_header(ApiKey.API_VERSIONS, 0, 1, None))
        sent = 0
        try:
            while sent < 50_000_000:
                sent += bad.socket.send(frame * 5000)
        except BlockingIOError:
            pass
        assert sent < 50_000_000, "the broker has read more than it has answered"
        broker.is_well()


def test_a_connection_for_each_byte(broker: Watched) -> None:
    frame = framed(write_request_header(ApiKey.API_VERSIONS, 0, 1, "me"))
    for end in range(len(frame)):
        broker.survives(frame[:end])
    with broker.home.client() as good:
        assert isinstance(good, WireClient)
        good.socket.sendall(frame)
        assert good.receive_frame()
