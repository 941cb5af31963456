"""The links between clients and brokers of a cluster obey. test_mirror.py has the rest of that harness."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from real_kafka.connection_owner import connection_owner
from tidelog.testing.broker.kept_port import keep_port
from tidelog.testing.cluster.link import Network
from tidelog.testing.cluster.route import Way


class Echo:
    """A server that returns the bytes it receives."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.received = threading.Event()
        self.closed = threading.Event()
        """Set once a connection has ended."""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    def _echo(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while data := connection.recv(1 << 16):
                self.received.set()
                connection.sendall(data)
        self.closed.set()


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


def test_a_disconnection_during_the_handshake_counts(echo: Echo) -> None:
    with Network() as network:
        link = network.link(echo.port)
        link.freeze()
        with socket.create_connection(("127.0.0.1", link.port), timeout=20) as client:
            network._thread.wait_for(lambda: bool(link._connections))
            link.disconnect()
            link.heal()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        network._thread.wait_for(lambda: not link._connections)


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


def test_an_end_of_a_half_open_connection_learns_nothing(echo: Echo) -> None:
    with Network() as network:
        link = network.link(echo.port)
        with connected(link.port) as client:
            link.forget()
            echo.received.clear()
            client.sendall(b"lost")
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                client.recv(4)
            with connected(link.port):
                assert echo.received.is_set()
            assert echo.closed.wait(20), "the new connection has not ended"
            echo.closed.clear()
            link.heal()
            with pytest.raises(TimeoutError):
                client.recv(4)
        assert not echo.closed.wait(0.2)


def test_lost_bytes_arrive_late_and_a_connection_of_too_many_losses_is_reset(echo: Echo) -> None:
    with Network() as network:
        link = network.link(echo.port)
        with connected(link.port) as client:
            link.retransmission_s = 0.01
            link.lose(0.3)
            for number in range(9):
                client.sendall(b"%d" % number)
                assert client.recv(1) == b"%d" % number
            assert link.losses
            link.lose(1.0, Way.RESPONSES)
            client.sendall(b"x")
            with pytest.raises(ConnectionResetError):
                client.recv(1)


def test_a_fault_of_one_client_does_not_affect_another(echo: Echo) -> None:
    owners = {1: os.getpid()}
    program = """if True:
        import socket, sys
        client = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20)
        for _ in range(2):
            client.sendall(b"a")
            print(client.recv(1), flush=True)
            sys.stdin.readline()
    """
    with Network() as network:
        link = network.link(echo.port, find_client=lambda port, remote: connection_owner(port, remote, owners))
        command = [sys.executable, "-c", program, str(link.port)]
        with (
            connected(link.port) as own,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
        ):
            assert other.stdin
            assert other.stdout
            assert other.stdout.readline() == "b'a'\n"
            link.route(1).freeze()
            own.sendall(b"b")
            other.stdin.write("\n")
            other.stdin.flush()
            assert other.stdout.readline() == "b'a'\n"
            own.settimeout(0.2)
            with pytest.raises(TimeoutError):
                own.recv(1)
            link.heal()
            own.settimeout(20)
            assert own.recv(1) == b"b"
            other.stdin.close()
        assert (link.accepted, link.route(1).accepted) == (1, 1)


def test_a_link_to_a_dead_broker_closes_the_connection() -> None:
    with Network() as network, keep_port() as place:
        link = network.link(place.getsockname()[1])
        with pytest.raises(OSError, match="reset"):
            connected(link.port)
