"""The harness for clusters: leaders move after a kill, unclean elections lose records, and links obey."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from real_kafka.broker import BrokerError
from real_kafka.cluster import Cluster
from real_kafka.cluster_link import Network, Way
from real_kafka.java import KRAFT_3, NEWEST
from real_kafka.tools import kafka_consume
from tidelog.testing.broker.in_process import keep_port

RELEASES = [NEWEST, pytest.param(KRAFT_3, marks=pytest.mark.slow)]


def produce(bootstrap: str, topic: str, partition: int, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2, "acks": "all", "batch.num.messages": 50})
    for value in values:
        producer.produce(topic, value=value, partition=partition)
    assert producer.flush(60) == 0


def values(bootstrap: str, name: str) -> list[bytes | None]:
    return [record[4] for record in kafka_consume(bootstrap, [name])[name]]


@pytest.mark.kafka
@pytest.mark.parametrize("release", RELEASES)
def test_leaders_move_and_an_unclean_election_loses_records(tmp_path: Path, release: str) -> None:
    with Cluster(tmp_path, release=release) as cluster:
        cluster.start()
        cluster.create_topic("t", assignment=[[1, 2], [3, 2]], segment_bytes=16384)
        produce(cluster.bootstrap, "t", 0, [b"%0100d" % number for number in range(300)])
        assert len(list(cluster.partition_directory(1, "t", 0).glob("*.log"))) > 1
        assert cluster.links[1].passed[Way.REQUESTS] > 30_000
        assert cluster.links[2].passed[Way.REQUESTS] < 10_000

        old, new = cluster.lose_records("t", 0, lambda: produce(cluster.bootstrap, "t", 0, [b"lost"] * 5))
        assert (old, new) == (1, 2)
        produce(cluster.bootstrap, "t", 0, [b"kept"])
        assert values(cluster.direct, "t-0") == [b"%0100d" % number for number in range(300)] + [b"kept"]

        cluster.kill(3)
        cluster.wait("the leader moves", lambda: cluster.leader("t", 1) == 2)
        produce(cluster.bootstrap, "t", 1, [b"without broker 3"])
        cluster.restart(3)
        cluster.wait("broker 3 follows", lambda: cluster.in_sync("t", 1) == {2, 3})
        cluster.stop(2)
        assert cluster.leader("t", 1) == 3
        with pytest.raises(BrokerError, match="node 2 does not run"):
            cluster.stop(2)


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
