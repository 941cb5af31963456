"""Every API, tried by clients with and without permission. A response to a denied client reveals no names.

The cases are in ``cases``. ``test_kafkas_authorizer`` shows that Kafka's responses are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from server.authorization.case import DENIALS, NOBODY, Case
from server.authorization.cases import cases
from server.authorization.guarded_broker import guarded_broker
from server.authorization.plain_answers import plain
from server.authorization.world import CONSUMERS, GROUP, HIDDEN, HIDDEN_CONSUMERS, SETTINGS, TOPIC, TRANSACTION, World
from server.harness import BrokerHome, WireClient, running_broker
from tidelog.protocol.api_key import ApiKey
from tidelog.server.handlers.api_groups import API_GROUPS

CASES = {f"user-{number}": case for number, case in enumerate(cases())}
"""The cases by the user that sends the request."""
ELSEWHERE = {TOPIC: "nx", GROUP: "ng", CONSUMERS: "nk", TRANSACTION: "nt", HIDDEN: "nh", HIDDEN_CONSUMERS: "nhk"}
"""Names of resources that do not exist, by the names of the existing resources that they replace."""
WITHOUT_ASKING = {ApiKey.API_VERSIONS}
"""APIs that need no permission."""
LOG_IN = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
"""APIs that a client calls before it is authenticated."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerHome]:
    with guarded_broker(tmp_path_factory.mktemp("acls")) as running:
        yield running


@pytest.fixture(scope="module")
def world(home: BrokerHome) -> Iterator[World]:
    with home.client() as client:
        made = World(client)
        made.make()
        made.allow(acl._replace(principal=f"User:{user}") for user, case in CASES.items() for acl in case.rules)
        yield made


@pytest.mark.parametrize("user", CASES, ids=lambda user: CASES[user].name)
def test_an_answer_is_as_the_client_may(home: BrokerHome, world: World, user: str) -> None:
    case = CASES[user]
    values = case.values(world)
    with home.client(client_id=user) as client:
        answer = plain(client.call(case.api, case.version, **values))
    denials = DENIALS & set(codes_in(answer))
    assert (case.denial in denials) if case.denial else not denials, answer
    if not case.is_allowed:
        assert not [text for text in texts_in(answer) if HIDDEN in text and text not in texts_in(values)], answer
        assert answer == answer_elsewhere(home, case, values, user)


def answer_elsewhere(home: BrokerHome, case: Case, values: Any, user: str) -> Any:
    """Return the response to the same request about resources that do not exist, with the original names put back."""
    back = {there: name for name, there in ELSEWHERE.items()}
    with home.client(client_id=user) as client:
        return plain(client.call(case.api, case.version, **renamed(values, ELSEWHERE)), back)


def test_every_api_has_a_case_of_each_kind() -> None:
    allowed = {case.api for case in CASES.values() if case.is_allowed}
    denied = {case.api for case in CASES.values() if case.denial or not case.is_allowed}
    assert allowed | WITHOUT_ASKING == set(API_GROUPS) - LOG_IN
    assert denied == set(API_GROUPS) - LOG_IN


def test_without_an_authorizer_there_are_no_lists(tmp_path: Path) -> None:
    with running_broker(tmp_path) as running, running.client() as client:
        for case in CASES.values():
            if case.api in (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS):
                answer = plain(client.call(case.api, case.version, **case.values(World(client))))
                assert 54 in set(codes_in(answer)), answer


def test_what_is_allowed_survives_a_restart(tmp_path: Path) -> None:
    settings = {key.replace(".", "_"): value for key, value in SETTINGS.items()}
    case = next(case for case in CASES.values() if case.rules)
    with running_broker(tmp_path, **settings) as running:
        with running.client() as client:
            World(client).allow(case.rules)
        running.restart()
        with running.client() as client:
            assert World(client).count_acls() == len(case.rules)
        acls = running.call(lambda: list(running.broker.metadata.image.acls.values()))
        assert [acl.principal for acl in acls] == [NOBODY] * len(case.rules)


# --- parts of responses ---


def codes_in(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name.endswith("error_code") and isinstance(inner, int):
                yield inner
            else:
                yield from codes_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from codes_in(inner)


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from texts_in(inner)


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [renamed(inner, names) for inner in value]
    return names.get(value, value) if isinstance(value, str) else value


def test_the_client_is_who_its_peer_says(home: BrokerHome, world: World) -> None:
    """A denial belongs to a principal, not to a connection: the next principal may have more permissions."""
    with home.client(client_id="user-none") as client:
        assert client.call(ApiKey.DESCRIBE_CLUSTER, include_cluster_authorized_operations=True).error_code == 0
        denied = client.call(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[2])
    with WireClient(home.port, client_id="root") as client:
        allowed = client.call(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[2])
    assert (denied.error_code, allowed.error_code) == (31, 0)
