"""Brokers that must not join a controller's cluster, and controllers that are away or are no controllers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from client.peer import PATIENCE_S, Peer, PeerConnection, run
from real_kafka.tidelog_node import TidelogNode
from server.controller.controller_harness import ControllerHome
from server.metadata.observer.joined_broker import BROKER, broker_config, format_directory, joined, start_error, until
from server.metadata.observer.scripted_controller import CLUSTER
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.protocol.api_key import ApiKey
from tidelog.replication.registration_request import VersionRange
from tidelog.server.broker import Broker
from tidelog.server.dispatcher import ControllerDispatcher
from tidelog.server.forwarding_dispatcher import ForwardingDispatcher
from tidelog.server.metadata.broker_metadata import StartGivenUpError
from tidelog.server.metadata.features import SUPPORTED
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import Response
from tidelog.testing.broker.kept_port import keep_port

INTERVAL_MS = 200
TIMES = {
    "broker_heartbeat_interval_ms": str(INTERVAL_MS),
    "initial_broker_registration_timeout_ms": "3600000",
}
LEAST_BACK_OFF_MS = 0.8 * (20 + 40 + 80 + 160 + 320)
"""The back-offs of five failed connections to a controller, with the least jitter."""


@pytest.fixture
def tries(home: ControllerHome) -> list[int]:
    """The broker ids of the registrations that the controller gets."""
    found: list[int] = []

    class Count:
        is_idle = False

        def __call__(
            self, context: RequestContext, request: Any, handle: Callable[[], Response | Awaitable[Response]]
        ) -> Response | Awaitable[Response]:
            if context.api is ApiKey.BROKER_REGISTRATION:
                found.append(request.broker_id)
            return handle()

    service = home.node.controller_service
    assert isinstance(service, ControllerDispatcher)
    service.interceptor = Count()
    return found


def refusal(config: BrokerConfig) -> str:
    failure = run(lambda: start_error(config))
    assert isinstance(failure, ConfigError), failure
    return failure.message


async def fail_repeatedly(config: BrokerConfig, count: Callable[[], int], attempts: int = 3) -> float:
    """Start a broker until it has failed some times, let it give up, and return the time that this took in ms."""
    start, before = time.monotonic(), count()
    broker = Broker(config, ForwardingDispatcher)
    starting = asyncio.ensure_future(broker.start())
    await until(lambda: count() >= before + attempts or starting.done())
    elapsed_ms = (time.monotonic() - start) * 1000
    broker.give_up_start()
    with pytest.raises(StartGivenUpError):
        await starting
    return elapsed_ms


def test_a_broker_of_another_cluster(home: ControllerHome, tmp_path: Path, tries: list[int]) -> None:
    config = broker_config(tmp_path, [home], **TIMES)
    format_directory(config, "anotherClusterOfTestsA")
    text = refusal(config)
    assert "is of another cluster than this broker's log directories" in text
    assert "check controller.quorum.bootstrap.servers and log.dirs" in text
    assert len(tries) <= 1
    assert BROKER not in home.node.metadata.image.brokers


def test_a_broker_with_another_brokers_id(
    home: ControllerHome, tmp_path: Path, tries: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with joined(tmp_path / "1", home, cluster_id=home.cluster_id, **TIMES) as first:
            epoch = first.metadata.broker_epoch
            config = broker_config(tmp_path / "2", [home], **TIMES)
            format_directory(config, home.cluster_id)
            elapsed_ms = await fail_repeatedly(config, lambda: len(tries))
            assert elapsed_ms >= 2 * INTERVAL_MS
            assert home.node.metadata.image.brokers[BROKER].epoch == epoch
            assert not home.is_fenced(BROKER)

    with caplog.at_level(logging.ERROR):
        run(work)
    assert lines_with(caplog, "another broker has this node.id")
    (line,) = lines_with(caplog, "The registration of broker 7 is refused")
    assert "Another broker is registered with that broker id" in line


def test_a_copy_of_another_brokers_directory(
    home: ControllerHome, tmp_path: Path, tries: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with joined(tmp_path / "1", home, cluster_id=home.cluster_id, **TIMES):
            (tmp_path / "2").mkdir()
            properties = (tmp_path / "1" / "meta.properties").read_text()
            (tmp_path / "2" / "meta.properties").write_text(properties.replace(f"node.id={BROKER}", "node.id=8"))
            config = broker_config(tmp_path / "2", [home], node_id="8", **TIMES)
            elapsed_ms = await fail_repeatedly(config, lambda: tries.count(8))
            assert elapsed_ms >= 2 * INTERVAL_MS
            assert home.node.metadata.image.brokers.keys() == {BROKER}

    with caplog.at_level(logging.ERROR):
        run(work)
    assert lines_with(caplog, "another broker has registered the directory.id")
    (line,) = lines_with(caplog, "The registration of broker 8 is refused")
    assert "Broker 7 is already registered with directory" in line


def test_the_directory_of_another_node(home: ControllerHome, tmp_path: Path, tries: list[int]) -> None:
    config = broker_config(tmp_path, [home], **TIMES)
    format_directory(config, home.cluster_id, node_id=8)
    text = refusal(config)
    assert "Stored node id 8 doesn't match previous node id 7" in text
    assert str(tmp_path) in text
    assert not tries


def test_a_feature_out_of_the_brokers_range(
    home: ControllerHome,
    tmp_path: Path,
    tries: list[int],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    level = home.node.metadata.image.metadata_version
    older = {**SUPPORTED, "metadata.version": VersionRange(SUPPORTED["metadata.version"].oldest, level - 1)}
    monkeypatch.setattr("tidelog.server.metadata.observer.observed_metadata.SUPPORTED", older)
    config = broker_config(tmp_path, [home], **TIMES)
    format_directory(config, home.cluster_id)
    with caplog.at_level(logging.ERROR):
        text = refusal(config)
    assert "a feature of the cluster is at a level that this release does not support" in text
    assert len(tries) == 1
    (line,) = lines_with(caplog, "The registration of broker 7 is refused")
    assert f"does not support finalized version {level} of metadata.version" in line


@pytest.mark.parametrize(
    "greeting",
    [b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x46", bytes(64)],
    ids=["HTTP", "a TLS alert", "zeros"],
)
def test_a_peer_at_the_controllers_port_that_speaks_another_protocol(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, greeting: bytes
) -> None:
    connections = 0

    async def speak(connection: PeerConnection) -> None:
        nonlocal connections
        connections += 1
        await connection.send(greeting)

    async def work() -> None:
        async with Peer(speak) as peer:
            config = broker_config(tmp_path, [_At(str(peer.address))], **TIMES)
            format_directory(config)
            elapsed_ms = await fail_repeatedly(config, lambda: connections, attempts=6)
            assert elapsed_ms >= LEAST_BACK_OFF_MS
            found = lines_with(caplog, f"Controller {peer.address}")
            assert found
            assert len(found) <= 3, "one line for each text"

    with caplog.at_level(logging.ERROR):
        run(work)


class _At:
    """The address of a controller."""

    def __init__(self, address: str) -> None:
        self.address = address


def lines_with(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


@pytest.mark.parametrize("is_there", [False, True], ids=["away", "it accepts connections but is silent"])
def test_a_signal_ends_a_start_that_waits_for_the_controller(tmp_path: Path, is_there: bool) -> None:
    with keep_port() as place:
        if is_there:
            place.listen()
        properties = {
            "process.roles": "broker",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{place.getsockname()[1]}",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "initial.broker.registration.timeout.ms": "3600000",
        }
        node = TidelogNode(BROKER, root=tmp_path, properties=properties)
        node.format(CLUSTER)
        node.launch()
        try:
            while "Waiting for the active controller" not in node.log:
                assert node.is_running, node.log
                time.sleep(0.02)
            node.stop(PATIENCE_S)
        finally:
            node.kill()
    assert "Traceback" not in node.log


def test_a_broker_joins_once_its_controller_is_there(
    home: ControllerHome, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster_id = home.cluster_id
    home.stop()

    async def start() -> None:
        async with joined(tmp_path, home, cluster_id=cluster_id, **TIMES):
            assert not home.is_fenced(BROKER)

    async def work() -> None:
        starting = asyncio.ensure_future(start())
        await until(lambda: bool(lines_with(caplog, f"cannot connect to server {home.address}")))
        await asyncio.to_thread(home.start)
        await starting

    run(work)
