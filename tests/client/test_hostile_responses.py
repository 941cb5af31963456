"""Any bytes of a server: frames in any pieces, damaged responses of every API, and noise on a connection."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client.peer import Peer, PeerConnection, run
from server.message_strategies import responses
from tidelog.client import ClientError, DisconnectedError, open_connection
from tidelog.client.connection.response_frames import SCRATCH_BYTES, ResponseFrames
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.messages import read_response, write_response

QUICK = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
LONG = settings(QUICK, max_examples=10_000, derandomize=False)
LIMIT = 4 * SCRATCH_BYTES
SIZES = st.integers(4, 200) | st.integers(SCRATCH_BYTES - 20, SCRATCH_BYTES + 20) | st.just(2 * SCRATCH_BYTES)


def receive(frames: ResponseFrames, data: bytes, piece: int) -> list[bytes]:
    """Receive a stream in pieces of at most this size. Return the frames."""
    found: list[bytes] = []
    position = 0
    while position < len(data):
        space = frames.buffer()
        count = min(len(space), piece, len(data) - position)
        assert count > 0, "there must always be space"
        space[:count] = data[position : position + count]
        found += map(bytes, frames.received(count))
        position += count
    return found


@QUICK
@given(st.lists(SIZES, max_size=6), st.integers(1, 20) | st.integers(20_000, 200_000))
def test_frames_come_in_any_pieces(sizes: list[int], piece: int) -> None:
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    frames = ResponseFrames(LIMIT)
    data = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    assert receive(frames, data[: 3 * LIMIT], piece) == bodies
    assert frames.is_between_frames


@QUICK
@given(st.binary(max_size=300), st.integers(1, 50))
def test_noise_is_frames_or_refused(data: bytes, piece: int) -> None:
    with suppress(MalformedMessageError):
        receive(ResponseFrames(LIMIT), data, piece)


def test_frames_keep_their_bytes_while_later_ones_arrive() -> None:
    frames = ResponseFrames(LIMIT)
    small, large = b"s" * 50, b"l" * (SCRATCH_BYTES + 1)
    data = b"".join(struct.pack(">i", len(body)) + body for body in (small, large, small))
    kept: list[memoryview] = []
    position = 0
    while position < len(data):
        space = frames.buffer()
        count = min(len(space), len(data) - position)
        space[:count] = data[position : position + count]
        kept += frames.received(count)
        position += count
    frames.buffer()[:] = bytes(len(frames.buffer()))
    assert list(map(bytes, kept)) == [small, large, small]


def test_the_limit_is_exact() -> None:
    assert receive(ResponseFrames(100), struct.pack(">i", 100) + bytes(100), 1000) == [bytes(100)]
    with pytest.raises(MalformedMessageError, match=r"announces 101 bytes, but receive.message.max.bytes is 100"):
        receive(ResponseFrames(100), struct.pack(">i", 101), 1000)


@st.composite
def damaged_responses(draw: st.DrawFn) -> tuple[ApiKey, int, bytes]:
    """Draw a valid response of any API and version, with some bits flipped, and perhaps truncated."""
    api = draw(st.sampled_from(sorted(VERSIONS)))
    version = draw(st.integers(VERSIONS[api].oldest, VERSIONS[api].latest))
    data = bytearray(write_response(api, version, draw(responses(api, version))))
    for place in draw(st.lists(st.integers(0, max(len(data) * 8 - 1, 0)), max_size=4)):
        if data:
            data[place // 8] ^= 1 << place % 8
    return api, version, bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


def try_damaged(effort: settings) -> None:
    @effort
    @given(damaged_responses())
    def run_one(response: tuple[ApiKey, int, bytes]) -> None:
        with suppress(MalformedMessageError):
            read_response(*response)

    run_one()


def test_damaged_responses_are_refused_or_read() -> None:
    try_damaged(QUICK)


@pytest.mark.slow
def test_damaged_responses_for_long() -> None:
    try_damaged(LONG)


@settings(QUICK, max_examples=25)
@given(st.lists(st.binary(max_size=100), max_size=4), st.booleans(), st.booleans())
def test_noise_on_a_connection(pieces: list[bytes], are_framed: bool, have_id: bool) -> None:
    """The request fails with an error of the client, whatever arrives, and the connection is closed."""

    async def script(peer: PeerConnection) -> None:
        await peer.tell_versions()
        request = await peer.request()
        for piece in pieces:
            piece = struct.pack(">i", request.header.correlation_id) + piece if have_id else piece
            await peer.send(struct.pack(">i", len(piece)) + piece if are_framed else piece)

    async def work() -> None:
        async with Peer(script) as peer:
            connection = await open_connection(peer.address, peer.settings())
            while connection.is_open:  # a piece may happen to be a response
                with suppress(DisconnectedError):
                    await connection.send(ApiKey.METADATA, {"topics": None})
            assert not connection.is_open
            assert connection.in_flight == 0

    run(work)


def test_a_peer_that_sends_slowly_meets_the_timeout() -> None:
    """A byte at a time keeps a connection alive, but not a request."""

    async def script(peer: PeerConnection) -> None:
        await peer.tell_versions()
        await peer.request()
        await peer.send(struct.pack(">i", 1_000_000))
        while True:
            await peer.send(b"\0")
            await asyncio.sleep(0.005)

    async def work() -> None:
        async with Peer(script) as peer:
            connection = await open_connection(peer.address, peer.settings())
            with pytest.raises(ClientError, match="has not responded to Metadata within 100 ms"):
                await connection.send(ApiKey.METADATA, {"topics": None}, timeout_ms=100)
            assert not connection.is_open

    run(work)
