"""Behavior that is specific to TLS connections. ``test_connection`` holds for them too."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import pytest

from server.harness import WireClient
from server.network.listener_harness import FrameClient, ListenerHarness, echo, listening, tls
from server.security.certificates import authority
from tidelog.protocol.frames import length_prefix
from tidelog.server.network.connection import Reply


@pytest.fixture(autouse=True)
def _security(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ListenerHarness, "security", tls())


class PieceClient:
    """A client that sends TLS in pieces. ``cut`` splits the bytes."""

    def __init__(self, harness: ListenerHarness, cut: Callable[[bytes], list[bytes]]) -> None:
        self.raw = WireClient(harness.listener.port)
        self._cut = cut
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cadata=authority().pem)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def shake_hands(self) -> None:
        """Shake hands up to the last flight, which is sent with the next bytes."""
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self.flush()
                self._incoming.write(self.raw.socket.recv(65536))

    def send(self, frame: bytes) -> None:
        self._tls.write(length_prefix([frame]) + frame)
        self.flush()

    def flush(self) -> None:
        for piece in self._cut(self._outgoing.read()):
            self.raw.socket.sendall(piece)

    def receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                data += self._tls.read(count - len(data))
            except ssl.SSLWantReadError:
                self._incoming.write(self.raw.socket.recv(65536))
        return data

    def say_good_bye(self) -> None:
        """End TLS without closing the connection."""
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.unwrap()
        self.flush()


def bytewise(data: bytes) -> list[bytes]:
    return [data[position : position + 1] for position in range(len(data))]


@pytest.mark.parametrize("cut", [bytewise, lambda data: [data]])
def test_pieces_need_not_be_records(cut: Callable[[bytes], list[bytes]]) -> None:
    """The bytes arrive one by one, or the handshake's end and several requests arrive in one piece."""
    with listening(echo) as harness:
        client = PieceClient(harness, cut)
        with client.raw:
            client.shake_hands()
            for frame in (b"one", b"two" * 100):
                client.send(frame)
            assert client.receive(4 + 3 + 4 + 300) == b"\0\0\0\x03one\0\0\x01\x2c" + b"two" * 100


def test_requests_within_one_record_are_all_answered() -> None:
    """The socket reports only the first one."""
    frames = [b"%d" % number for number in range(500)]
    with listening(echo) as harness, harness.client() as client:
        client.send_frames(*frames)
        assert [client.receive_frame() for _ in frames] == frames


def test_who_ends_tls_has_left() -> None:
    """This also holds during a request that waits only for the client."""
    waiting: list[asyncio.Future[Reply]] = []

    def answer(_: bytes) -> Awaitable[Reply]:
        waiting.append(harness.loop.create_future())
        for connection in harness.listener.connections:
            connection.client.on_connection_closed = lambda: waiting[0].cancel()
        return waiting[-1]

    with listening(answer) as harness:
        client = PieceClient(harness, lambda data: [data])
        with client.raw:
            client.shake_hands()
            client.send(b"?")
            harness.wait_for_requests(1)
            client.say_good_bye()
            harness.wait_for(lambda: waiting[0].cancelled() and not harness.listener.connections)


def test_what_is_sent_on_while_a_request_is_under_way_is_answered_after_it() -> None:
    waiting: list[asyncio.Future[Reply]] = []

    def answer(frame: bytes) -> Reply | Awaitable[Reply]:
        if frame != b"slow":
            return echo(frame)
        waiting.append(harness.loop.create_future())
        return waiting[-1]

    with listening(answer) as harness, harness.client() as client:
        client.send_frames(b"slow")
        harness.wait_for_requests(1)
        client.send_frames(b"next", b"x" * 100_000)
        (connection,) = harness.listener.connections
        harness.wait_for(lambda: not connection.is_reading)
        harness.call(lambda: waiting[0].set_result(echo(b"done")))
        assert [client.receive_frame() for _ in range(3)] == [b"done", b"next", b"x" * 100_000]


def test_a_client_is_told_that_nothing_is_missing() -> None:
    """The broker ends TLS before the connection, so that the client can detect a truncated stream."""
    with listening(echo) as harness, harness.client() as client:
        assert client.exchange(b"?") == b"?"
        context = ssl.create_default_context(cadata=authority().pem)
        strict = context.wrap_socket(
            FrameClient(harness.listener.port).socket, server_hostname="localhost", suppress_ragged_eofs=False
        )
        with strict:
            harness.wait_for(lambda: len(harness.listener.connections) == 2)
            harness.call(harness.listener.close)
            assert strict.recv(1) == b""


def test_a_peer_that_shakes_no_hands_is_closed_when_it_is_idle() -> None:
    with listening(echo, connections_max_idle_ms=10_000) as harness, WireClient(harness.listener.port) as client:
        harness.wait_for(lambda: len(harness.listener.connections) == 1)
        harness.call(lambda: harness.clock.sleep_ms(10_000))
        assert client.is_closed_by_broker()
