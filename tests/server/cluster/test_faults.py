"""Faults between brokers in one process: damaged records, broken connections, a full disk, and clocks that jump.

A follower reports each fault, pauses between its attempts, and has every record once the fault is over.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from server.cluster.local_cluster import T0, LocalCluster
from server.jumping_clock import JumpingClock
from tidelog.client.model.address import Address
from tidelog.protocol.errors import ErrorCode
from tidelog.storage.fs.os_errors import SystemCall
from tidelog.testing.broker.killable_files import KillableFiles

BACKOFF_MS = 50
"""``replica.fetch.backoff.ms`` of the cluster."""
ATTEMPTS = 4
SHORT_PAUSES = 6
"""The attempts after which the pauses have grown to the back-off."""
HOUR_MS = 3_600_000
LAG = {"replica.lag.time.max.ms": "3000"}
"""The leader's high watermark waits that long for a replica whose broker lives, also if its log directory failed."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, configs={"replica.socket.timeout.ms": "500"}) as made:
        yield made


@pytest.fixture
def log_lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[str], list[str]]]:
    """Return a function that returns the lines so far with a text."""
    with caplog.at_level(logging.INFO):
        yield lambda text: [one.getMessage() for one in list(caplog.records) if text in one.getMessage()]


def require_pauses(cluster: LocalCluster, attempts: Callable[[], int]) -> None:
    """Wait for further failed attempts, and check that they have pauses between them."""
    first = attempts()
    cluster.wait_for(lambda: attempts() >= first + SHORT_PAUSES)
    start, before = time.monotonic(), attempts()
    cluster.wait_for(lambda: attempts() >= before + ATTEMPTS)
    assert (time.monotonic() - start) * 1000 >= (ATTEMPTS - 1) * BACKOFF_MS


def require_equal(cluster: LocalCluster, *node_ids: int) -> None:
    cluster.wait_until_equal(*node_ids)
    assert len({cluster.segment_bytes(node_id) for node_id in node_ids}) == 1


# --- records ---


def test_records_that_the_leaders_disk_has_damaged_are_refused(
    cluster: LocalCluster, log_lines: Callable[[str], list[str]]
) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"first")
    cluster.wait_until_equal(1, 2, 3)
    cluster.isolate(2)
    for value in (b"second", b"third", b"fourth"):
        cluster.produce(value, acks=1)
    cluster.wait_until_equal(1, 3)
    path = cluster.directory / "1" / "t-0" / "00000000000000000000.log"
    position = path.read_bytes().index(b"third")
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"T")
    cluster.heal(2)
    require_pauses(cluster, lambda: len(log_lines("t-0 is fetched again from broker 1 after a back-off")))
    (line,) = log_lines("are refused, and will be fetched again")
    assert line.startswith("Records of t-0 from broker 1 at offset 2 are refused")
    assert "the CRC of a batch that the leader sent does not match" in line
    assert cluster.log(2).end_offset == 2, "the batch before the damage is appended"
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"t")
    require_equal(cluster, 1, 2, 3)


# --- connections ---


class FaultyLink:
    """A proxy in front of a broker's port that a test breaks: ``fault`` gets the bytes of the responses."""

    def __init__(self, port: int) -> None:
        self.fault: Callable[[bytes, asyncio.StreamWriter], None] | None = None
        self.delay_s = 0.0
        self.connections = 0
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> Address:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return Address("127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._tasks.add(asyncio.get_running_loop().create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source, sink = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await asyncio.gather(self._copy(reader, sink, None), self._copy(source, writer, self))
        finally:
            sink.close()
            writer.close()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, faulty: FaultyLink | None) -> None:
        with suppress(ConnectionError):
            while data := await source.read(1024):
                if faulty is None or faulty.fault is None:
                    sink.write(data)
                else:
                    faulty.fault(data, sink)
                if faulty is not None and faulty.delay_s:
                    await asyncio.sleep(faulty.delay_s)
                await sink.drain()
        sink.close()


def swallow(_data: bytes, _sink: asyncio.StreamWriter) -> None:
    """Keep a connection half open: requests arrive, and no response comes back."""


def scramble(data: bytes, sink: asyncio.StreamWriter) -> None:
    sink.write(bytes(byte ^ 0x5A for byte in data))


def break_off(data: bytes, sink: asyncio.StreamWriter) -> None:
    sink.write(data[: len(data) // 2])
    sink.close()


def speak_http(_data: bytes, sink: asyncio.StreamWriter) -> None:
    sink.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    sink.close()


def follow_through(cluster: LocalCluster, follower: int, leader: int) -> FaultyLink:
    """Let a follower reach the leader through a link."""
    link = FaultyLink(cluster.brokers[leader].listeners[0].port)
    address = cluster.run(link.start)

    def redirect() -> None:
        links = cluster.brokers[follower].links
        direct = links.address_of
        links.address_of = lambda node_id: address if node_id == leader else direct(node_id)

    cluster.call(redirect)
    return link


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (swallow, "has not responded to|was not ready within"),
        (scramble, "breaks Kafka's protocol"),
        (break_off, "has closed the connection"),
        (speak_http, "breaks Kafka's protocol"),
    ],
)
def test_a_broken_connection_between_brokers(
    cluster: LocalCluster,
    log_lines: Callable[[str], list[str]],
    fault: Callable[[bytes, asyncio.StreamWriter], None],
    text: str,
) -> None:
    cluster.create_topic("t", [[1, 2]])
    link = follow_through(cluster, 2, 1)
    cluster.produce(b"first")
    link.fault = fault
    for value in (b"second", b"third"):
        cluster.produce(value, acks=1)

    require_pauses(cluster, lambda: link.connections)
    failures = log_lines("Fetches from broker 1 fail, and are tried again: ")
    assert "broker 1 at 127.0.0.1:" in failures[0]
    assert any(one in line for one in text.split("|") for line in failures)
    assert len(failures) == len(set(failures)), "an error has one line"
    assert not log_lines("succeed again")
    link.fault = None
    cluster.produce(b"fourth")
    require_equal(cluster, 1, 2)
    assert cluster.log(2).end_offset == 4
    assert len(log_lines("Fetches from broker 1 succeed again; ")) == 1
    assert not log_lines("t-0 is fetched again"), "partitions have no lines of their own"
    cluster.run(link.stop)


def test_a_slow_connection_between_brokers(cluster: LocalCluster, log_lines: Callable[[str], list[str]]) -> None:
    cluster.create_topic("t", [[1, 2]])
    link = follow_through(cluster, 2, 1)
    cluster.produce(b"first")
    link.delay_s = 0.005
    cluster.produce(*(b"%0200d" % number for number in range(200)))  # 40 pieces of 1 KiB
    require_equal(cluster, 1, 2)
    assert not log_lines("are tried again: ")
    cluster.run(link.stop)


def test_a_leader_that_refuses_the_follower_is_an_error_in_one_line(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture, log_lines: Callable[[str], list[str]]
) -> None:
    """Broker 2 authenticates by SASL, but the other brokers' listeners are PLAINTEXT."""
    cluster.create_topic("t", [[1, 2]])
    cluster.stop(2)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    cluster.own_configs[2] = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f'{module} username="broker" password="p" user_broker="p";',
    }
    cluster.start(2)
    link = follow_through(cluster, 2, 1)
    require_pauses(cluster, lambda: link.connections)
    found = [one for one in caplog.records if one.getMessage().startswith("Fetches from broker 1 fail")]
    assert {one.levelno for one in found} == {logging.ERROR}
    assert all("refuses SASL mechanism PLAIN" in one.getMessage() for one in found)
    assert len(found) == len({one.getMessage() for one in found}), "an error has one line"
    cluster.stop(2)
    cluster.own_configs.pop(2)
    cluster.start(2)
    cluster.produce(b"first")
    require_equal(cluster, 1, 2)
    cluster.run(link.stop)


# --- disks ---


class FullDisk(KillableFiles):
    """A disk that is full once ``is_full`` is set."""

    __slots__ = ("is_full",)

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False

    def require_alive(self, path: Path) -> None:
        super().require_alive(path)
        if self.is_full and "disk2" in path.parts:
            with SystemCall("write", path):
                raise OSError(errno.ENOSPC, "full")


def test_a_full_disk_of_a_follower(tmp_path: Path, log_lines: Callable[[str], list[str]]) -> None:
    disk = FullDisk()
    cluster = LocalCluster(tmp_path, configs={"min.insync.replicas": "2", **LAG})
    cluster.file_systems[2] = lambda: disk
    cluster.own_configs[2] = {"log.dirs": f"{tmp_path / '2'},{tmp_path / 'disk2'}"}
    with cluster:
        for number in range(2):  # one is in each of the follower's log directories
            cluster.create_topic(f"t{number}", [[1, 2, 3]])
        topics = [T0._replace(topic=f"t{number}") for number in range(2)]
        (on_full,) = [one for one in topics if (tmp_path / "disk2" / str(one)).exists()]
        (elsewhere,) = [one for one in topics if one != on_full]
        for partition in topics:
            cluster.produce(b"first", partition=partition)
        disk.is_full = True
        cluster.produce(b"second", partition=on_full)
        cluster.wait_for_isr(1, 3, partition=on_full)
        (line,) = log_lines("is offline because its disk failed")
        assert str(tmp_path / "disk2") in line
        assert "no space left on the disk" in line
        cluster.produce(b"third", partition=on_full)
        cluster.produce(b"second", partition=elsewhere)
        cluster.wait_until_equal(1, 2, 3, partition=elsewhere)
        cluster.wait_until_equal(1, 3, partition=on_full)
        cluster.stop(2)
        disk.is_full = False
        cluster.start(2)
        cluster.wait_for_isr(1, 2, 3, partition=on_full)
        cluster.wait_until_equal(1, 2, 3, partition=on_full)
        assert len({cluster.segment_bytes(node_id, on_full) for node_id in (1, 2, 3)}) == 1


# --- clocks ---


def test_clocks_that_jump_change_no_in_sync_replicas(tmp_path: Path, log_lines: Callable[[str], list[str]]) -> None:
    clocks = {node_id: JumpingClock() for node_id in (1, 2, 3)}
    cluster = LocalCluster(tmp_path)
    cluster.clocks.update(clocks)
    with cluster:
        cluster.create_topic("t", [[1, 2, 3]])
        cluster.produce(b"first")
        for leader_ms, follower_ms in ((HOUR_MS, -HOUR_MS), (-HOUR_MS, HOUR_MS), (0, 0)):
            clocks[1].ahead_ms, clocks[2].ahead_ms = leader_ms, follower_ms
            for number in range(5):
                assert cluster.try_produce(b"%d" % number).error_code == ErrorCode.NONE
        assert set(cluster.state().isr) == {1, 2, 3}
        assert cluster.state().partition_epoch == 0, "the in-sync replicas have never changed"
        require_equal(cluster, 1, 2, 3)
        assert cluster.log(1).end_offset == 16
    assert not log_lines("is fetched again")
