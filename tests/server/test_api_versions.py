"""ApiVersions over a real socket: the first request of every client."""

from __future__ import annotations

import pytest

from server.harness import BrokerHome, WireClient
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.frames import length_prefix
from tidelog.protocol.headers import write_request_header
from tidelog.protocol.messages import read_response
from tidelog.server.handlers.api_groups import API_GROUPS

SOFTWARE = {"client_software_name": "tests", "client_software_version": "1.0"}


@pytest.mark.parametrize("version", range(VERSIONS[ApiKey.API_VERSIONS].latest + 1))
def test_every_version_names_the_apis_there_are(client: WireClient, version: int) -> None:
    answer = client.call(ApiKey.API_VERSIONS, version, **SOFTWARE)
    assert answer.error_code == 0
    advertised = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert set(advertised) == set(API_GROUPS)
    assert advertised[ApiKey.API_VERSIONS] == (0, 4)


def test_an_unknown_version_is_answered_with_version_0_and_what_there_is(client: WireClient) -> None:
    header = write_request_header(ApiKey.API_VERSIONS, 99, 5, "new")
    body = b"what ever comes"
    client.socket.sendall(length_prefix([header, body]) + header + body)
    frame = client.receive_frame()
    assert frame[:4] == b"\0\0\0\x05"
    answer = read_response(ApiKey.API_VERSIONS, 0, frame[4:])
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [(18, 0, 4)]
    assert client.call(ApiKey.API_VERSIONS, 0).error_code == 0, "the connection goes on"


def test_a_clients_software_is_known_from_here_on(home: BrokerHome, client: WireClient) -> None:
    client.call(ApiKey.API_VERSIONS, 3, **SOFTWARE)
    assert home.call(lambda: [one.client.software for one in home.broker.listeners[0].connections]) == [
        ("tests", "1.0")
    ]


@pytest.mark.parametrize("name", ["", "with space", "-begins", "ends."])
def test_software_that_is_not_well_formed_is_refused(client: WireClient, name: str) -> None:
    answer = client.call(ApiKey.API_VERSIONS, 3, client_software_name=name, client_software_version="1")
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_features_are_those_of_a_new_cluster_of_kafka(client: WireClient) -> None:
    """The expected features are those of a Kafka 4.4 that was formatted with ``--standalone``."""
    answer = client.call(ApiKey.API_VERSIONS, 4, **SOFTWARE)
    assert {row.name: (row.min_version, row.max_version) for row in answer.supported_features} == {
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 33),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
        "eligible.leader.replicas.version": (0, 1),
    }
    finalized = {row.name: row.max_version_level for row in answer.finalized_features}
    assert finalized == {
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
        "metadata.version": 33,
        "share.version": 2,
        "streams.version": 1,
        "kraft.version": 1,
    }
    assert all(row.min_version_level == row.max_version_level for row in answer.finalized_features)
    assert answer.finalized_features_epoch > 0
    assert not answer.zk_migration_ready


def test_an_older_client_is_not_told_of_features_that_can_be_off(client: WireClient) -> None:
    answer = client.call(ApiKey.API_VERSIONS, 3, **SOFTWARE)
    assert [row.name for row in answer.supported_features] == ["metadata.version"]
    assert len(answer.finalized_features) == 7
