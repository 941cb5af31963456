"""A listener on an event loop in a background thread, with a service that a test writes as a function."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from server.harness import WireClient
from server.security.certificates import authority, server_identity
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.frames import Frame, length_prefix
from tidelog.security.security_protocol import SecurityProtocol
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.connection import Reply
from tidelog.server.network.endpoint import ListenerEndpoint
from tidelog.server.network.limits import ConnectionCounts, NetworkLimits
from tidelog.server.network.listener import Listener
from tidelog.server.network.send_queue import Part
from tidelog.server.security.listener_config import ListenerConfig
from tidelog.server.security.listener_security import OPEN, ListenerSecurity
from tidelog.server.security.tls_settings import TlsSettings
from tidelog.testing.broker.loop_thread import PATIENCE_S, LoopThread
from tidelog.testing.manual_clock import ManualClock
from tidelog.testing.manual_timers import ManualTimers

Answerer = Callable[[bytes], Reply | Awaitable[Reply]]


def tls() -> ListenerSecurity:
    """Return TLS settings with the tests' certificate."""
    texts = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": server_identity().key_pem(),
        "ssl.keystore.certificate.chain": server_identity().chain_pem,
    }
    settings = TlsSettings.of(ListenerConfig(BrokerConfig.load(overrides=texts), "PLAINTEXT"))
    return ListenerSecurity(protocol=SecurityProtocol.SSL, tls=settings)


def reply(*parts: Part) -> list[Part]:
    return [length_prefix(parts), *parts]


def echo(frame: bytes) -> Reply:
    return reply(frame)


def sendfile_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each later call of ``os.sendfile`` appends the number of bytes that it sent."""
    counts: list[int] = []
    sendfile = os.sendfile

    def watched(*arguments: int) -> int:
        counts.append(sendfile(*arguments))
        return counts[-1]

    monkeypatch.setattr(os, "sendfile", watched)
    return counts


class ListenerHarness:
    security: ClassVar[ListenerSecurity] = OPEN
    """The listeners' security. A test may run with TLS and without it."""

    def __init__(self, answer: Answerer, *, host: str = "127.0.0.1", **limits: Any) -> None:
        """Override Kafka's defaults with ``limits``, which are fields of NetworkLimits."""
        self.begun: list[bytes] = []
        """The requests that reached the service, by time."""
        self.clock = ManualClock(1_000_000)
        self._answer = answer
        self._changed = threading.Condition()
        self._thread = LoopThread()
        defaults = NetworkLimits.of(BrokerConfig())
        self.limits = replace(defaults, **limits)
        self.counts = ConnectionCounts(self.limits)
        self.listener = Listener(
            ListenerEndpoint(name="PLAINTEXT", host=host, port=0),
            loop=self._thread.loop,
            timers=ManualTimers(self.clock),
            service=self,
            limits=self.limits,
            counts=self.counts,
            security=self.security,
        )
        self.call = self._thread.call
        self.wait_for = self._thread.wait_for
        self.loop = self._thread.loop
        self.call(self.listener.open)
        self.call(self.listener.start)

    def begin(self, frame: Frame, _peer: ClientConnection) -> Reply | Awaitable[Reply]:
        with self._changed:
            self.begun.append(bytes(frame))
            self._changed.notify_all()
        return self._answer(bytes(frame))

    def wait_for_requests(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= count, PATIENCE_S), self.begun

    def client(self) -> FrameClient:
        """Open a connection, which the caller closes."""
        client = FrameClient(self.listener.port)
        if self.security.tls is not None:
            context = ssl.create_default_context(cadata=authority().pem)
            client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        return client

    def close(self) -> None:
        self.call(self.listener.close)
        self._thread.stop()


class FrameClient(WireClient):
    """A client that sends and receives frames with any content."""

    def send_frames(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(length_prefix([frame]) + frame for frame in frames))

    def exchange(self, frame: bytes) -> bytes:
        self.send_frames(frame)
        return self.receive_frame()


@contextmanager
def listening(answer: Answerer, **options: Any) -> Iterator[ListenerHarness]:
    """Yield a listener with the options of ``ListenerHarness``."""
    harness = ListenerHarness(answer, **options)
    try:
        yield harness
    finally:
        harness.close()
