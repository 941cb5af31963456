"""Fetches from the closest replica (KIP-392)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.cluster.local_cluster import T0, LocalCluster
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.start_settings import EMBEDDED_SETTINGS, StartSettings
from tidelog.testing.broker.loop_thread import PATIENCE_S

RACK_AWARE = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Return brokers in the racks "1", "2" and "3"; broker 1 leads."""
    made = LocalCluster(tmp_path, configs=RACK_AWARE)
    made.own_configs = {node_id: {"broker.rack": str(node_id)} for node_id in (1, 2, 3)}
    with made:
        made.create_topic("t", [[1, 2, 3]])
        made.produce(b"a")
        made.wait_until_equal(1, 2, 3)
        yield made


def fetch(cluster: LocalCluster, node_id: int, rack: str = "", **fields: Any) -> Struct:
    """Fetch as a consumer, and return the partition's part of the response."""
    with cluster.client(node_id) as client:
        return fetch_with(client, rack, **fields)


def fetch_with(
    client: Any, rack: str, *, offset: int = 0, version: int = 11, max_wait_ms: int = 0, leader_epoch: int = -1
) -> Struct:
    partition = {
        "partition": 0,
        "current_leader_epoch": leader_epoch,
        "fetch_offset": offset,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    response = client.call(
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": "t", "partitions": [partition]}],
        forgotten_topics_data=[],
        rack_id=rack,
    )
    found: Struct = response.responses[0].partitions[0]
    return found


def test_a_consumer_is_sent_to_the_replica_in_its_rack(cluster: LocalCluster) -> None:
    found = fetch(cluster, 1, "2", max_wait_ms=60_000)
    assert (found.error_code, found.preferred_read_replica, found.records) == (0, 2, b"")
    assert (found.high_watermark, found.log_start_offset) == (1, 0)


@pytest.mark.parametrize("rack", ["", "1", "unknown"])
def test_the_leader_serves_consumers_without_a_closer_replica(cluster: LocalCluster, rack: str) -> None:
    found = fetch(cluster, 1, rack)
    assert found.preferred_read_replica == -1
    assert bytes(found.records) == cluster.segment_bytes(1)


def test_a_follower_serves_consumers_and_sends_them_nowhere(cluster: LocalCluster) -> None:
    for rack in ("2", "3"):
        found = fetch(cluster, 2, rack)
        assert (found.error_code, found.preferred_read_replica) == (0, -1)
        assert bytes(found.records) == cluster.segment_bytes(1)


def test_a_follower_does_not_serve_older_clients(cluster: LocalCluster) -> None:
    assert fetch(cluster, 2, version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch(cluster, 1, version=10).error_code == ErrorCode.NONE


def test_a_follower_checks_the_leader_epoch(cluster: LocalCluster) -> None:
    epoch = cluster.state().leader_epoch
    assert fetch(cluster, 2, "2", leader_epoch=epoch).error_code == ErrorCode.NONE
    assert fetch(cluster, 2, "2", leader_epoch=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetch(cluster, 1, "2", leader_epoch=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_offset_above_the_followers_high_watermark_is_out_of_its_range(cluster: LocalCluster) -> None:
    assert fetch(cluster, 2, "2", offset=2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_that_waits_at_a_follower_completes_on_replication(cluster: LocalCluster) -> None:
    found: list[Struct] = []
    waiting = threading.Thread(target=lambda: found.append(fetch(cluster, 2, "2", offset=1, max_wait_ms=60_000)))
    waiting.start()
    cluster.wait_for(lambda: len(cluster.brokers[2].replicas.partition(T0).purgatory) > 0)
    cluster.produce(b"b")
    waiting.join(PATIENCE_S)
    assert len(found[0].records) > 0
    assert found[0].high_watermark == 2


def test_a_follower_serves_records_before_and_after_a_roll(cluster: LocalCluster) -> None:
    cluster.call(lambda: cluster.brokers[1].replicas.partition(T0).log.roll())
    cluster.call(lambda: cluster.brokers[2].replicas.partition(T0).log.roll())
    cluster.produce(b"b")
    cluster.wait_until_equal(1, 2, 3)
    assert [bool(fetch(cluster, 2, "2", offset=offset).records) for offset in (0, 1, 2)] == [True, True, False]


def test_a_consumer_reads_from_the_leader_while_the_closest_replica_is_away(cluster: LocalCluster) -> None:
    cluster.stop(2)
    found = fetch(cluster, 1, "2")
    assert (found.preferred_read_replica, bytes(found.records)) == (-1, cluster.segment_bytes(1))
    cluster.start(2)
    cluster.wait_for_isr(1, 2, 3)
    assert fetch(cluster, 1, "2").preferred_read_replica == 2


def test_a_replica_out_of_sync_is_not_preferred(cluster: LocalCluster) -> None:
    cluster.isolate(2)
    cluster.wait_for(lambda: not cluster.brokers[2].replicas.partition(T0).follower.poll(0))
    cluster.fence(2)
    assert fetch(cluster, 1, "2").preferred_read_replica == -1
    cluster.unfence(2)
    assert cluster.state().isr == (1, 3)
    assert fetch(cluster, 1, "2").preferred_read_replica == -1


def test_a_replica_without_the_offset_is_not_preferred(cluster: LocalCluster) -> None:
    cluster.isolate(2)
    cluster.produce(b"b", acks=1)
    assert fetch(cluster, 1, "2", offset=2).preferred_read_replica == -1
    assert fetch(cluster, 1, "2", offset=1).preferred_read_replica == 2


def test_without_a_selector_no_replica_is_preferred(tmp_path: Path) -> None:
    made = LocalCluster(tmp_path, 2)
    made.own_configs = {node_id: {"broker.rack": str(node_id)} for node_id in (1, 2)}
    with made as cluster:
        cluster.create_topic("t", [[1, 2]])
        cluster.produce(b"a")
        assert fetch(cluster, 1, "2").preferred_read_replica == -1


def test_an_unknown_selector_class_is_a_mistake(tmp_path: Path) -> None:
    config = BrokerConfig.load(overrides={**EMBEDDED_SETTINGS, "replica.selector.class": "my.Selector"})
    with pytest.raises(ConfigError, match=r"replica\.selector\.class: my\.Selector is not supported"):
        StartSettings.of(config)
