"""Requests that are exempt from the request quota, each by itself. Kafka: RequestQuotaTest, RequestHandlerHelper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from log_maker import batch
from server.controller.controller_harness import ControllerHome
from server.data.data_home import WITH_NAMES, DataHome, offsets_in
from server.harness import BrokerHome, WireClient, running_broker
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.quotas.client_quotas import ClientQuotas

LEADER_ACKS: Final = 1


def set_quotas(client: WireClient, **values: float) -> None:
    """Set quotas of the client id "test". ``client`` has another id."""
    operations = [{"key": key, "value": value, "remove": False} for key, value in values.items()]
    entity = [{"entity_type": "client-id", "entity_name": "test"}]
    response = client.call(
        ApiKey.ALTER_CLIENT_QUOTAS, entries=[{"entity": entity, "ops": operations}], validate_only=False
    )
    assert response.entries[0].error_code == ErrorCode.NONE


class TestOfABroker:
    @pytest.fixture
    def home(self, tmp_path: Path) -> Iterator[BrokerHome]:
        with running_broker(tmp_path, log_retention_ms="-1") as home:
            yield home

    @pytest.fixture
    def data(self, home: BrokerHome) -> Iterator[DataHome]:
        """A topic with two batches, and a client whose least request exceeds its quota."""
        with home.client(client_id="admin") as admin, home.client() as client:
            admin_data = DataHome(home, admin)
            admin_data.create("t")
            admin_data.append(b"v")
            admin_data.append(b"w")
            set_quotas(admin, request_percentage=1e-9, consumer_byte_rate=1e-9)
            yield DataHome(home, client)

    @pytest.mark.parametrize(
        "send_exempt",
        [
            lambda data: data.client.call(ApiKey.WRITE_TXN_MARKERS, markers=[]),
            lambda data: data.fetch_many({("t", 0): 0}, replica_id=2),
            lambda data: data.send_produce(batch(0, [b"v"]), acks=0),
        ],
        ids=["WriteTxnMarkers", "Fetch", "Produce"],
    )
    def test_the_next_request_of_the_connection_is_throttled(
        self, data: DataHome, send_exempt: Callable[[DataHome], Any]
    ) -> None:
        quotas = data.home.broker.quotas
        for _ in range(2):
            send_exempt(data)
        first = data.send_produce(batch(0, [b"v"]), acks=LEADER_ACKS)
        assert data.client.receive(ApiKey.PRODUCE, WITH_NAMES, first).throttle_time == 0, "the exempt were counted"
        assert data.home.call(lambda: len(quotas.usages)) == 1
        second = data.send_produce(batch(0, [b"v"]), acks=LEADER_ACKS)
        assert data.client.receive(ApiKey.PRODUCE, WITH_NAMES, second).throttle_time == 1000

    def test_a_follower_has_no_consumer_quota(self, data: DataHome) -> None:
        """Neither its bytes are counted nor is its response smaller."""
        data.assign(2)
        response = data.fetch_many({("t", 0): 0}, replica_id=2)
        assert offsets_in(response.responses[0].partitions[0].records) == [0, 1]
        assert data.home.call(lambda: len(data.home.broker.quotas.usages)) == 0

    def test_a_produce_without_acks_has_its_producer_quota(self, home: BrokerHome, data: DataHome) -> None:
        with home.client(client_id="admin") as admin:
            set_quotas(admin, producer_byte_rate=1.0)
        for _ in range(2):
            data.send_produce(batch(0, [b"v"]), acks=0)
        data.home.wait_for(lambda: len(home.broker.quotas.usages) == 1)


class TestOfAController:
    @pytest.fixture
    def home(self, tmp_path: Path) -> Iterator[ControllerHome]:
        with ControllerHome(tmp_path) as home:
            yield home

    @pytest.mark.parametrize(
        ("api", "fields"),
        [
            (ApiKey.FETCH, {"topics": [], "max_wait": 0, "min_bytes": 0}),
            (ApiKey.FETCH_SNAPSHOT, {"topics": [], "replica_id": 1}),
            (ApiKey.ALTER_PARTITION, {"broker_id": 1, "broker_epoch": 0, "topics": []}),
            (ApiKey.ENVELOPE, {"request_data": b"", "request_principal": None, "client_host_address": b""}),
            (ApiKey.DESCRIBE_QUORUM, {"topics": []}),
        ],
    )
    def test_a_nodes_requests(self, home: ControllerHome, api: ApiKey, fields: dict[str, Any]) -> None:
        assert self.counted(home, api, fields) == [0, 1]

    @pytest.mark.parametrize(
        ("api", "fields"),
        [
            (ApiKey.ALLOCATE_PRODUCER_IDS, {"broker_id": 1, "broker_epoch": 0}),
            (ApiKey.ASSIGN_REPLICAS_TO_DIRS, {"broker_id": 1, "broker_epoch": 0, "directories": []}),
        ],
    )
    def test_kafka_counts_these(self, home: ControllerHome, api: ApiKey, fields: dict[str, Any]) -> None:
        assert self.counted(home, api, fields) == [1, 1]

    def counted(self, home: ControllerHome, api: ApiKey, fields: dict[str, Any]) -> list[int]:
        """Return the clients that were counted after the request, and after another one of the connection."""
        quotas: ClientQuotas = home.node.quotas
        with WireClient(home.port, client_id="admin") as admin, home.client() as client:
            set_quotas(admin, request_percentage=1e9)
            client.call(api, **fields)
            first = home.call(lambda: len(quotas.usages))
            client.call(ApiKey.DESCRIBE_CLUSTER, endpoint_type=2, include_cluster_authorized_operations=False)
            return [first, home.call(lambda: len(quotas.usages))]

    def test_an_unauthorized_request_is_counted(self, tmp_path: Path) -> None:
        authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        with ControllerHome(tmp_path, authorizer_class_name=authorizer, super_users="User:admin") as home:
            quotas: ClientQuotas = home.node.quotas
            home.call(lambda: quotas.change({(("client-id", "test"),): {"request_percentage": 1.0}}))
            with home.client() as client:
                response = client.call(ApiKey.ALTER_PARTITION, broker_id=1, broker_epoch=0, topics=[])
                assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert home.call(lambda: len(quotas.usages)) == 1
