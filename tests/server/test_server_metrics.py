"""A broker's own metrics, under Kafka's names."""

from __future__ import annotations

from server.harness import BrokerHome, WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.replication.broker_state import BrokerState


def reported(home: BrokerHome) -> dict[str, float]:
    return {
        str(sample.name): next(iter(sample.values.values()))
        for sample in home.broker.metrics.samples()
        if sample.name.group in ("kafka.network", "kafka.server")
    }


def test_requests_are_counted_by_api_and_version(home: BrokerHome, client: WireClient) -> None:
    for version in (0, 0, 2):
        client.call(ApiKey.API_VERSIONS, version)
    counts = reported(home)
    assert counts["kafka.network:type=RequestMetrics,name=RequestsPerSec,request=ApiVersions,version=0"] == 2
    assert counts["kafka.network:type=RequestMetrics,name=RequestsPerSec,request=ApiVersions,version=2"] == 1


def test_connections_memory_and_state_are_told(home: BrokerHome, client: WireClient) -> None:
    client.call(ApiKey.API_VERSIONS, 0)
    values = reported(home)
    assert values["kafka.server:type=KafkaServer,name=BrokerState"] == BrokerState.RUNNING
    assert values["kafka.server:type=socket-server-metrics,name=connection-count,listener=PLAINTEXT"] == 1
    assert values["kafka.server:type=socket-server-metrics,name=connection-creation-total,listener=PLAINTEXT"] == 1
    assert values["kafka.network:type=SocketServer,name=MemoryPoolUsed"] == 0


def test_a_broker_that_has_stopped_reports_nothing_more(home: BrokerHome) -> None:
    home.stop()
    assert "kafka.server:type=KafkaServer,name=BrokerState" not in reported(home)
