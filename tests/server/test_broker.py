"""A broker's life: start, stop, failures of both, and requests that no handler can serve."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from server.harness import BrokerHome, WireClient, running_broker
from tidelog.model import ConfigError, LockedError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.replication.broker_state import BrokerState
from tidelog.server.broker import Broker
from tidelog.server.handlers.api_groups import API_GROUPS
from tidelog.server.handlers.registry import LOADERS, Handler
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata
from tidelog.server.network.listener import Listener
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import Response
from tidelog.storage.manager.log_manager import LogManager


def test_it_runs_from_its_start_to_its_stop(tmp_path: Path) -> None:
    with running_broker(tmp_path) as home:
        before = home.broker.state
        assert before is BrokerState.RUNNING
        with home.client() as client:
            assert client.call(ApiKey.API_VERSIONS, 0).error_code == 0
            home.stop()
            assert home.broker.state is BrokerState.NOT_RUNNING
            assert client.is_closed_by_broker()
        home.stop()


def test_it_says_what_it_is_at_while_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers: list[Broker] = []
    states = []
    made, startup, start = Broker.__init__, LogManager.startup, ClusterMetadata.start

    def noted(self: Broker, *arguments: Any, **options: Any) -> None:
        brokers.append(self)
        made(self, *arguments, **options)

    def loads(self: LogManager, *arguments: Any, **options: Any) -> Any:
        states.append(brokers[-1].state)
        return startup(self, *arguments, **options)

    async def follows(self: ClusterMetadata) -> None:
        states.append(brokers[-1].state)
        await start(self)

    monkeypatch.setattr(Broker, "__init__", noted)
    monkeypatch.setattr(LogManager, "startup", loads)
    monkeypatch.setattr(ClusterMetadata, "start", follows)
    with running_broker(tmp_path) as home:
        states.append(home.broker.state)
    assert states == [BrokerState.STARTING, BrokerState.RECOVERY, BrokerState.RUNNING]


def test_it_says_what_it_is_at_while_it_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = []
    close, shutdown = Listener.close, LogManager.shutdown
    with running_broker(tmp_path) as home:

        def closing(self: Listener) -> None:
            states.append(home.broker.state)
            close(self)

        def noted(self: LogManager, *arguments: Any, **options: Any) -> None:
            states.append(home.broker.state)
            shutdown(self, *arguments, **options)

        monkeypatch.setattr(Listener, "close", closing)
        monkeypatch.setattr(LogManager, "shutdown", noted)
        home.stop()
    assert states == [BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN]


def test_it_starts_again_on_its_directory(tmp_path: Path) -> None:
    with running_broker(tmp_path) as home:
        for _ in range(2):
            home.restart()
            with home.client() as client:
                assert client.call(ApiKey.API_VERSIONS, 0).error_code == 0
            assert all(directory.was_clean for directory in home.broker.logs.online)


def test_each_listener_has_a_port_and_all_serve(tmp_path: Path) -> None:
    with running_broker(
        tmp_path,
        listeners="INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
        advertised_listeners="INTERNAL://127.0.0.1:0,EXTERNAL://broker.example:0",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        inter_broker_listener_name="INTERNAL",
    ) as home:
        ports = [listener.port for listener in home.broker.listeners]
        assert len(set(ports)) == 2
        for port in ports:
            with WireClient(port) as client:
                assert client.call(ApiKey.API_VERSIONS, 0).error_code == 0
        assert [str(one) for one in home.broker.advertised] == [
            f"INTERNAL://127.0.0.1:{ports[0]}",
            f"EXTERNAL://broker.example:{ports[1]}",
        ]


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with running_broker(tmp_path / "a") as home:
        other = BrokerHome(tmp_path / "a", listeners="PLAINTEXT://127.0.0.1:0")
        with pytest.raises(LockedError):
            other.start()
        assert other.broker.state is BrokerState.NOT_RUNNING
        other.close()
        taken = BrokerHome(tmp_path / "b", listeners=f"PLAINTEXT://127.0.0.1:{home.port}")
        with pytest.raises(ConfigError, match=r"cannot bind PLAINTEXT://127\.0\.0\.1:"):
            taken.start()
        taken.close()
    with running_broker(tmp_path / "a"):
        pass


def test_tasks_of_its_parts_end_with_it_and_their_errors_are_logged(
    home: BrokerHome, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def wait() -> None:
        await asyncio.sleep(3600)

    task = home.call(lambda: home.broker.spawn(wait()))
    failing = home.call(lambda: home.broker.spawn(fail()))
    home.wait_for(failing.done)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == [
        "A task of the broker failed"
    ]
    home.stop()
    assert task.cancelled()


def replace_handler(monkeypatch: pytest.MonkeyPatch, api: ApiKey, error: Exception) -> None:
    """Replace the API's handler. The replacement raises ``error`` from version 1 on."""

    def handle(_broker: Broker, context: RequestContext, _request: Struct) -> Response:
        if context.version > 0:
            raise error
        return {}

    monkeypatch.setitem(LOADERS, API_GROUPS[api], lambda: {api: Handler(handle)})


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiError(ErrorCode.UNKNOWN_MEMBER_ID), ErrorCode.UNKNOWN_MEMBER_ID),
        (ConfigError("no"), ErrorCode.INVALID_CONFIG),
        (ZeroDivisionError(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_error_is_answered_where_the_api_has_room_for_it(
    monkeypatch: pytest.MonkeyPatch, client: WireClient, error: Exception, code: ErrorCode
) -> None:
    replace_handler(monkeypatch, ApiKey.HEARTBEAT, error)
    assert client.call(ApiKey.HEARTBEAT).error_code == code
    assert client.call(ApiKey.HEARTBEAT, 0).error_code == 0


def test_an_error_where_the_api_has_no_room_for_it_closes_the_connection(
    monkeypatch: pytest.MonkeyPatch, client: WireClient
) -> None:
    replace_handler(monkeypatch, ApiKey.CREATE_TOPICS, ApiError(ErrorCode.INVALID_REQUEST))
    client.send(ApiKey.CREATE_TOPICS, 7)
    assert client.is_closed_by_broker()


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x12",
        b"\x7f\xff\0\0\0\0\0\1\xff\xff",  # an unknown API
        b"\0\x32\0\0\0\0\0\1\xff\xff\0",  # an API that is not served
        b"\0\x12\0\x03\0\0\0\1\xff\xff\0\x7f",  # a truncated ApiVersions request
    ],
)
def test_a_request_that_is_none_closes_the_connection_with_one_line(
    home: BrokerHome, client: WireClient, caplog: pytest.LogCaptureFixture, frame: bytes
) -> None:
    client.socket.sendall(len(frame).to_bytes(4, "big") + frame)
    assert client.is_closed_by_broker()
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
    with home.client() as other:
        assert other.call(ApiKey.API_VERSIONS, 0).error_code == 0


def test_a_connection_that_is_cut_off_leaves_no_line(
    home: BrokerHome, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    home.wait_for(lambda: not home.broker.listeners[0].connections)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
