"""Envelope at a controller: clients' requests with their principal. Kafka: ControllerApisTest, EnvelopeUtils."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from server.controller.controller_harness import ControllerHome, RemoteBroker
from server.harness import WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.headers import response_header, write_request_header
from tidelog.protocol.messages import read_response, write_request
from tidelog.protocol.schemas import Struct
from tidelog.server.security.principal import Principal
from tidelog.server.security.principal_data import read_principal, write_principal

ALICE = Principal("User", "alice")
ADDRESS = bytes([127, 0, 0, 9])
TOPIC = {"name": "t", "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
CREATE = {"topics": [TOPIC], "timeout": 10_000, "validate_only": False}
AUTHORIZED = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}


def test_a_principal_comes_back() -> None:
    assert read_principal(write_principal(Principal("User", "CN=bröker"))) == Principal("User", "CN=bröker")
    # The bytes of Kafka's DefaultPrincipalData, version 0.
    assert write_principal(ALICE) == b"\0\0" + b"\5User" + b"\6alice" + b"\0" + b"\0"


def send(client: WireClient, api: ApiKey, version: int, values: dict[str, Any], **envelope: Any) -> Struct:
    """Send a forwarded request. ``envelope`` replaces the envelope's fields."""
    data = write_request_header(api, version, 77, "inner") + write_request(api, version, values)
    fields = {
        "request_data": data,
        "request_principal": write_principal(ALICE),
        "client_host_address": ADDRESS,
        **envelope,
    }
    return client.call(ApiKey.ENVELOPE, **fields)


def inner(api: ApiKey, version: int, response: Struct) -> Struct:
    assert response.error_code == ErrorCode.NONE
    header = response_header(api, version, 77)
    assert response.response_data.startswith(header)
    return read_response(api, version, response.response_data[len(header) :])


@pytest.mark.parametrize("version", [2, 5, 7])
def test_a_request_is_carried_out(broker: RemoteBroker, version: int) -> None:
    broker.join()
    response = inner(ApiKey.CREATE_TOPICS, version, send(broker.client, ApiKey.CREATE_TOPICS, version, CREATE))
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("t", ErrorCode.NONE)]
    assert len(broker.home.node.metadata.image.topics["t"].partitions) == 2


@pytest.mark.parametrize(
    ("envelope", "code"),
    [
        ({"request_principal": b"\0\1"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b"\0\0\5Us"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"abc"}, ErrorCode.INVALID_REQUEST),
        ({"request_data": b"\0"}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": struct.pack(">hhih", 19, 99, 1, -1)}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": struct.pack(">hhih", 19, 7, 1, -1) + b"\0\x09"}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": struct.pack(">hhih", 62, 4, 1, -1) + b"\0"}, ErrorCode.INVALID_REQUEST),
    ],
    ids=["version", "cut", "none", "address", "header", "api version", "body", "not forwarded"],
)
def test_an_envelope_that_is_not_valid(broker: RemoteBroker, envelope: dict[str, Any], code: ErrorCode) -> None:
    response = send(broker.client, ApiKey.CREATE_TOPICS, 7, CREATE, **envelope)
    assert (response.error_code, response.response_data) == (code, None)


def test_the_request_inside_counts_for_its_own_principal(broker: RemoteBroker) -> None:
    """The throttle time is in the response inside. The broker carries it out, and its own connection goes on."""
    broker.join()
    operation = {"key": "controller_mutation_rate", "value": 0.001, "remove": False}
    entity = [{"entity_type": "user", "entity_name": "alice"}]
    values = {"entries": [{"entity": entity, "ops": [operation]}], "validate_only": False}
    assert broker.client.call(ApiKey.ALTER_CLIENT_QUOTAS, **values).entries[0].error_code == ErrorCode.NONE

    def create(name: str) -> tuple[ErrorCode, int]:
        request = {**CREATE, "topics": [{**TOPIC, "name": name, "num_partitions": 20}]}
        response = inner(ApiKey.CREATE_TOPICS, 7, send(broker.client, ApiKey.CREATE_TOPICS, 7, request))
        return ErrorCode(response.topics[0].error_code), response.throttle_time

    error, first_ms = create("a")
    assert error == ErrorCode.NONE
    error, second_ms = create("b")
    assert error == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert (first_ms, second_ms > 60_000) == (0, True)
    assert not broker.heartbeat().is_fenced


class TestAuthorization:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return AUTHORIZED

    def test_the_request_inside_has_its_own_principal(self, broker: RemoteBroker) -> None:
        broker.join()
        response = inner(ApiKey.CREATE_TOPICS, 7, send(broker.client, ApiKey.CREATE_TOPICS, 7, CREATE))
        assert response.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        permission = {
            "resource_type": 2,
            "resource_name": "t",
            "resource_pattern_type": 3,
            "principal": "User:alice",
            "host": "127.0.0.9",  # the client's address, not the broker's
            "operation": 5,
            "permission_type": 3,
        }
        (created,) = broker.client.call(ApiKey.CREATE_ACLS, creations=[permission]).results
        assert created.error_code == ErrorCode.NONE
        response = inner(ApiKey.CREATE_TOPICS, 7, send(broker.client, ApiKey.CREATE_TOPICS, 7, CREATE))
        assert response.topics[0].error_code == ErrorCode.NONE


class TestWithoutPermission:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {**AUTHORIZED, "super_users": "User:broker"}

    def test_brokers_need_cluster_action(self, home: ControllerHome, broker: RemoteBroker) -> None:
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert broker.register().error_code == denied
        assert broker.heartbeat().error_code == denied
        assert broker.fetch().error_code == denied
        assert send(broker.client, ApiKey.CREATE_TOPICS, 7, CREATE).error_code == denied
        for api, values in (
            (ApiKey.ALTER_PARTITION, {"broker_id": 1, "topics": []}),
            (ApiKey.ALLOCATE_PRODUCER_IDS, {"broker_id": 1}),
            (ApiKey.ASSIGN_REPLICAS_TO_DIRS, {"broker_id": 1, "directories": []}),
            (ApiKey.UNREGISTER_BROKER, {"broker_id": 1}),
            (ApiKey.FETCH_SNAPSHOT, {"topics": []}),
            (ApiKey.DESCRIBE_CLUSTER, {"include_cluster_authorized_operations": False, "endpoint_type": 2}),
        ):
            assert broker.client.call(api, **values).error_code == denied, api
        assert home.node.metadata.image.brokers == {}
