"""Our broker and Kafka's, with the same ACLs, send the same responses to every case, field by field.

The users authenticate with PLAIN. Kafka's broker applies its controller's records a moment later, so a request that may
be repeated is sent until the responses agree. Both brokers refuse every request of a user named ``*``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from real_kafka.broker import SMALL, Broker
from server.authorization.case import Case
from server.authorization.plain_answers import CLOSED, answer_to, differences
from server.authorization.test_every_api import CASES, codes_in
from server.authorization.world import SETTINGS, World
from server.harness import WireClient, running_broker
from server.older_versions import other_versions
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.testing.broker.kept_port import keep_port

pytestmark = pytest.mark.kafka

PATIENCE_S = 60
PASSWORD = "a-password"
EVERYBODY = "*"
"""A user with this name, which ACLs cannot distinguish from the wildcard principal."""
USERS = SETTINGS | {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.users.plain.sasl.jaas.config": " ".join(
        (
            "org.apache.kafka.common.security.plain.PlainLoginModule required",
            *(f'"user_{user}"="{PASSWORD}"' for user in (*CASES, EVERYBODY)),
            ";",
        )
    ),
}
"""The settings with another listener, at which users authenticate."""
CHANGING = {
    ApiKey.PRODUCE,
    ApiKey.JOIN_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.OFFSET_DELETE,
    ApiKey.DELETE_GROUPS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.END_TXN,
}
"""APIs whose requests may not be repeated."""
TIMED = {ApiKey.JOIN_GROUP, ApiKey.END_TXN}
"""The response also depends on work that the broker still does for an earlier request."""

Connect = Callable[[str], WireClient]
"""Opens an authenticated connection for a user."""


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[tuple[World, Connect]]:
    with closing(keep_port()) as place:
        port = place.getsockname()[1]
        with Broker(
            tmp_path / "kafka",
            work=tmp_path / "work",
            properties=USERS,
            more_listeners=f"USERS://127.0.0.1:{port}",
        ) as broker:
            broker.format()
            broker.start()
            with WireClient(int(broker.bootstrap.rpartition(":")[2])) as client:
                yield World(client), lambda user: logged_in(port, user)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[tuple[World, Connect]]:
    listeners = {"listeners": "PLAINTEXT://127.0.0.1:0,USERS://127.0.0.1:0"}
    settings = {key.replace(".", "_"): text for key, text in {**SMALL, **USERS, **listeners}.items()}
    with running_broker(tmp_path / "ours", **settings, controller_quorum_voters="1@127.0.0.1:2") as home:
        _open, of_users = home.broker.listeners
        with home.client() as client:
            yield World(client), lambda user: logged_in(of_users.port, user)


def logged_in(port: int, user: str) -> WireClient:
    client = WireClient(port, client_id=user)
    assert client.call(ApiKey.SASL_HANDSHAKE, mechanism="PLAIN").error_code == 0
    answer = client.call(ApiKey.SASL_AUTHENTICATE, auth_bytes=f"\0{user}\0{PASSWORD}".encode())
    assert answer.error_code == 0, answer
    return client


def test_every_answer(kafka: tuple[World, Connect], ours: tuple[World, Connect]) -> None:
    for world, _connect in (kafka, ours):
        world.make()
        world.allow(acl._replace(principal=f"User:{user}") for user, case in CASES.items() for acl in case.rules)
    differing: dict[str, list[str]] = {}
    for user, case in CASES.items():
        if case.api is ApiKey.API_VERSIONS:  # Kafka's response lists other APIs
            continue
        differing |= differences_in(case, user, ours, kafka)
    assert not differing, told(differing)
    for user, case in CASES.items():
        for other in in_other_versions(case, ours[0]):
            differing |= differences_in(other, user, ours, kafka)
    assert not differing, told(differing)
    first_of_each = {case.api: case for case in reversed(CASES.values()) if case.api is not ApiKey.API_VERSIONS}
    for case in first_of_each.values():
        for broker in (kafka, ours):
            answer = asked(broker, EVERYBODY, case)
            failures = {ErrorCode.UNKNOWN_SERVER_ERROR} if answer == CLOSED else set(codes_in(answer)) - {0}
            assert failures == {ErrorCode.UNKNOWN_SERVER_ERROR}, answer


def differences_in(
    case: Case, user: str, ours: tuple[World, Connect], kafka: tuple[World, Connect]
) -> dict[str, list[str]]:
    """Return the differences under the name of the case. The result is empty if the responses are the same."""
    mine, theirs = asked(ours, user, case), asked(kafka, user, case)
    deadline = time.monotonic() + PATIENCE_S
    while theirs != mine and case.api not in CHANGING and time.monotonic() < deadline:
        time.sleep(0.1)
        mine, theirs = asked(ours, user, case), asked(kafka, user, case)
    return {} if mine == theirs else {case.name: list(differences(mine, theirs))}


def told(differing: dict[str, list[str]]) -> str:
    return "\n".join(f"{name}{where}" for name, places in differing.items() for where in places)


def in_other_versions(case: Case, world: World) -> Iterator[Case]:
    for version in other_versions(case.api, case.version, case.values(world)):
        if case.api not in (ApiKey.API_VERSIONS, *TIMED):
            yield case._replace(version=version, name=f"{case.name}, version {version}")


def asked(broker: tuple[World, Connect], user: str, case: Case) -> Any:
    world, connect = broker
    with connect(user) as client:
        return answer_to(client, case.api, case.version, case.values(world))
