"""The links between clients and brokers of a cluster obey. test_mirror.py has the rest of that harness."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from real_kafka.cluster_link import Network, Way
from tidelog.testing.broker.in_process import keep_port


class Echo:
    """A server that returns the bytes it receives, for one connection at a time."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.received = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                try:
                    while data := connection.recv(1 << 16):
                        self.received.set()
                        connection.sendall(data)
                except OSError:
                    continue


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    with closing(made.socket):
        yield made


def connected(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=20)
    made.sendall(b"a")
    assert made.recv(1) == b"a"
    return made


def seconds(client: socket.socket, data: bytes) -> float:
    """Return the time until the echo of ``data`` has come."""
    begun = time.monotonic()
    client.sendall(data)
    left = len(data)
    while left:
        left -= len(client.recv(left))
    return time.monotonic() - begun


def test_a_disconnection_resets_and_refuses_until_it_is_healed(echo: Echo) -> None:
    with Network() as network:
        link = network.link(echo.port)
        with connected(link.port) as client:
            link.disconnect()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        with pytest.raises(OSError, match="reset"):
            connected(link.port)
        link.heal()
        connected(link.port).close()
        assert link.accepted == 2


def test_a_frozen_way_passes_nothing_and_then_everything(echo: Echo) -> None:
    with Network() as network:
        link = network.link(echo.port)
        with connected(link.port) as client:
            echo.received.clear()
            link.freeze(Way.RESPONSES)
            client.sendall(b"held")
            assert echo.received.wait(20)
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                client.recv(4)
            link.heal()
            client.settimeout(20)
            assert client.recv(4) == b"held"


def test_a_delay_and_a_throttle_take_their_time(echo: Echo) -> None:
    with Network() as network:
        link = network.link(echo.port)
        with connected(link.port) as client:
            link.delay(0.1)
            assert seconds(client, b"late") >= 0.2
            link.throttle(100_000, Way.RESPONSES)
            assert seconds(client, bytes(30_000)) >= 0.3
            link.heal()
            assert seconds(client, b"quick") < 20
            assert link.passed == dict.fromkeys(Way, 1 + 4 + 30000 + 5)


def test_a_link_to_a_dead_broker_closes_the_connection() -> None:
    with Network() as network, keep_port() as place:
        link = network.link(place.getsockname()[1])
        with pytest.raises(OSError, match="reset"):
            connected(link.port)
