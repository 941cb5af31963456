"""The APIs of a broker that keeps its metadata in ZooKeeper, compared with Kafka 3.9's."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.harness import BrokerHome, WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.server.broker import Broker
from tidelog.server.dispatcher import Dispatcher
from tidelog.server.handlers.registry import BROKER_APIS
from tidelog.server.handlers.zookeeper_registry import ZOOKEEPER_APIS
from tidelog.server.zookeeper_dispatcher import ZooKeeperDispatcher

KAFKAS = frozenset({*range(52), 56, 57, 58, 60, 61, 65, 66, 67, 68, 69})
"""The API keys at a listener of a broker of Kafka 3.9 with ZooKeeper (``ApiKeys.apisForListener(ZK_BROKER)``)."""
_BETWEEN_BROKERS = frozenset({4, 5, 6, 7, 56, 58, 67})
"""LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, AlterPartition, Envelope, AllocateProducerIds."""
_DELEGATION_TOKENS = frozenset({38, 39, 40, 41})


def test_the_apis_are_kafkas() -> None:
    ours = set(map(int, ZOOKEEPER_APIS.groups))
    assert KAFKAS - ours == {*_BETWEEN_BROKERS, *_DELEGATION_TOKENS, ApiKey.UPDATE_FEATURES}
    assert ours - KAFKAS == {ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.LIST_CONFIG_RESOURCES}


@pytest.mark.parametrize("api", ZOOKEEPER_APIS.groups, ids=lambda api: api.name)
def test_the_handlers_are_those_of_a_broker(api: ApiKey) -> None:
    handler = ZOOKEEPER_APIS.handler_of(api)
    assert (handler == BROKER_APIS.handler_of(api)) == (api is not ApiKey.API_VERSIONS)


class _Home(BrokerHome):
    """A broker whose listeners have the APIs of a broker with ZooKeeper."""

    def _dispatcher(self, server: Broker) -> Dispatcher:
        return ZooKeeperDispatcher(server)


def test_clients_learn_which_apis_there_are(tmp_path: Path) -> None:
    with _Home(tmp_path) as home, WireClient(home.port) as client:
        response = client.call(ApiKey.API_VERSIONS, 4, client_software_name="tests", client_software_version="1.0")
        assert {row.api_key for row in response.api_keys} == set(ZOOKEEPER_APIS.groups)
        with pytest.raises((ConnectionError, EOFError)):
            client.call(ApiKey.DESCRIBE_QUORUM, 0, topics=[])
