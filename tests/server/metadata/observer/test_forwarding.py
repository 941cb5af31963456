"""Requests that only a controller can carry out go to it as they are, in an Envelope with the client's principal."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from client.peer import Request, run
from server.harness import WireClient
from server.metadata.observer.joined_broker import client_of, joined
from server.metadata.observer.scripted_controller import ScriptedController
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.handlers import forwarding
from tidelog.server.security.principal import ANONYMOUS
from tidelog.server.security.principal_data import read_principal

LOGGER = logging.getLogger("tidelog.server.handlers")
CREATION = {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}], "timeout": 5_000}
CREATED = {"topics": [{"name": "t", "error_code": 0, "num_partitions": 1, "replication_factor": 1, "configs": []}]}


def envelope(
    respond: Callable[[Request], Mapping[str, Any]], requests: list[Request]
) -> Callable[[Any], Mapping[str, Any]]:
    """Return a handler of Envelope that serves the inner request."""

    def handle(values: Any) -> Mapping[str, Any]:
        inner = Request(bytes(values.request_data))
        requests.append(inner)
        return {"error_code": 0, "response_data": inner.response(respond(inner))[4:]}

    return handle


def test_the_controller_gets_the_request_and_the_client_its_response(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            inner: list[Request] = []
            controller.handlers[ApiKey.ENVELOPE] = envelope(lambda _request: CREATED, inner)
            async with client_of(broker) as client:
                for _ in range(2):  # each response has the correlation id of its request
                    response = await client.send(ApiKey.CREATE_TOPICS, CREATION)
                    assert [(topic.name, topic.error_code) for topic in response.topics] == [("t", 0)]
            (sent, _) = controller.of(ApiKey.ENVELOPE)
            assert read_principal(bytes(sent.request_principal)) == ANONYMOUS
            assert bytes(sent.client_host_address) == bytes([127, 0, 0, 1])
            assert (inner[0].api, inner[0].header.client_id) == (ApiKey.CREATE_TOPICS, "test")
            assert inner[0].values.topics[0].name == "t"

    run(work)


@pytest.mark.parametrize("api", sorted(forwarding.FORWARDED))
def test_every_such_api_is_forwarded_and_advertised(tmp_path: Path, api: ApiKey) -> None:
    assert api in forwarding.FORWARDING_APIS.groups
    handler = forwarding.FORWARDING_APIS.handler_of(api)
    assert handler.handle in (forwarding.handle, forwarding.handle_config_changes)
    assert handler.read is forwarding.read_unparsed


def test_a_controller_that_is_no_longer_active_is_asked_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            controller.handlers[ApiKey.ENVELOPE] = envelope(lambda _request: CREATED, [])
            refused = {"error_code": ErrorCode.NOT_CONTROLLER, "response_data": None}
            controller.scripts[ApiKey.ENVELOPE].extend([refused, refused])
            async with client_of(broker) as client:
                response = await client.send(ApiKey.CREATE_TOPICS, CREATION)
            assert response.topics[0].error_code == 0
            assert len(controller.of(ApiKey.ENVELOPE)) == 3

    run(work)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_an_error_of_the_envelope_is_no_error_of_the_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: ErrorCode, told: ErrorCode
) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            controller.scripts[ApiKey.ENVELOPE].append({"error_code": error, "response_data": None})
            async with client_of(broker) as client:
                response = await client.send(ApiKey.CREATE_TOPICS, CREATION)
            assert [(topic.name, topic.error_code) for topic in response.topics] == [("t", told)]

    with caplog.at_level(logging.ERROR):
        run(work)
    is_authorization = error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert any("CLUSTER_ACTION" in text for text in caplog.messages) == is_authorization


def test_the_controllers_throttle_time_holds_for_the_client(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            times = iter((400, 0))
            controller.handlers[ApiKey.ENVELOPE] = envelope(
                lambda _request: CREATED | {"throttle_time": next(times)}, []
            )
            port = broker.listeners[0].port

            def create_twice() -> tuple[list[int], float]:
                with WireClient(port) as client:
                    start = time.monotonic()
                    waits = [client.call(ApiKey.CREATE_TOPICS, **CREATION).throttle_time for _ in range(2)]
                    return waits, time.monotonic() - start

            waits, elapsed_s = await asyncio.to_thread(create_twice)
            assert waits == [400, 0]
            assert elapsed_s >= 0.4, "the connection is not read before"

    run(work)


def test_the_longer_throttle_time_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            own_ms = [0]
            monkeypatch.setattr(broker.quotas, "throttle", lambda _context: own_ms[0])
            controller.handlers[ApiKey.ENVELOPE] = envelope(lambda _request: CREATED | {"throttle_time": 20}, [])
            async with client_of(broker) as client:
                for own_ms[0], expected_ms in ((10, 20), (30, 30)):
                    response = await client.send(ApiKey.CREATE_TOPICS, CREATION)
                    assert (response.throttle_time, response.topics[0].error_code) == (expected_ms, 0)

    run(work)


def test_without_a_response_in_time_the_request_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "_TIMEOUT_MS", 200)

    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            refused = {"error_code": ErrorCode.NOT_CONTROLLER, "response_data": None}
            controller.handlers[ApiKey.ENVELOPE] = lambda _values: refused
            async with client_of(broker) as client:
                response = await client.send(ApiKey.CREATE_TOPICS, CREATION)
            assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT

    run(work)


def test_a_response_to_another_request_does_not_reach_the_client(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:

            def handle(values: Any) -> Mapping[str, Any]:
                inner = Request(bytes(values.request_data))
                data = inner.response(CREATED, correlation_id=inner.header.correlation_id + 1)
                return {"error_code": 0, "response_data": data[4:]}

            controller.handlers[ApiKey.ENVELOPE] = handle
            async with client_of(broker) as client:
                response = await client.send(ApiKey.CREATE_TOPICS, CREATION)
            assert response.topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    run(work)


def every_change_is_done(request: Request) -> Mapping[str, Any]:
    return {
        "responses": [
            {"error_code": 0, "resource_type": one.resource_type, "resource_name": one.resource_name}
            for one in request.values.resources
        ]
    }


def test_log_levels_are_changed_here_and_everything_else_by_the_controller(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            inner: list[Request] = []
            controller.handlers[ApiKey.ENVELOPE] = envelope(every_change_is_done, inner)
            level = {"name": LOGGER.name, "config_operation": 0, "value": "WARN"}
            own = {"resource_type": 8, "resource_name": str(broker.node_id), "configs": [level]}
            setting = {"name": "retention.ms", "config_operation": 0, "value": "1"}
            topic = {"resource_type": 2, "resource_name": "t", "configs": [setting]}
            async with client_of(broker) as client:
                for resources, forwarded in (([own], 0), ([topic], 1), ([own, topic], 2)):
                    response = await client.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": resources})
                    assert {(one.resource_type, one.error_code) for one in response.responses} == {
                        (one["resource_type"], 0) for one in resources
                    }
                    assert len(inner) == forwarded
            assert [one.resource_name for one in inner[-1].values.resources] == ["t"]
            assert LOGGER.level == logging.WARNING

    level_before = LOGGER.level
    try:
        run(work)
    finally:
        LOGGER.setLevel(level_before)


@pytest.mark.parametrize("api", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
def test_the_broker_refuses_invalid_settings_of_its_own(tmp_path: Path, api: ApiKey) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            inner: list[Request] = []
            controller.handlers[ApiKey.ENVELOPE] = envelope(every_change_is_done, inner)

            def change(kind: int, name: object, key: str, value: str) -> dict[str, Any]:
                operation = {} if api is ApiKey.ALTER_CONFIGS else {"config_operation": 0}
                config = {"name": key, "value": value, **operation}
                return {"resource_type": kind, "resource_name": str(name), "configs": [config]}

            async with client_of(broker) as client:
                response = await client.send(
                    api,
                    {
                        "resources": [
                            change(4, broker.node_id, "log.cleaner.threads", "none"),
                            change(2, "t", "retention.ms", "1"),
                            change(4, broker.node_id + 1, "log.cleaner.threads", "2"),
                            change(4, "", "log.cleaner.threads", "2"),
                        ],
                        "validate_only": True,
                    },
                )
            refused = ErrorCode.INVALID_REQUEST
            assert [one.error_code for one in response.responses] == [refused, 0, refused, 0]
            (forwarded,) = (one.values for one in inner)
            assert [one.resource_name for one in forwarded.resources] == ["t", ""]
            assert forwarded.validate_only

    run(work)
