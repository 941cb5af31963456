"""In-sync replicas between brokers in one process: lag, the minimum, purgatories, broker epochs, and metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.cluster.local_cluster import T0, LocalCluster
from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.testing.broker.loop_thread import PATIENCE_S

# A busy machine can make living followers lag for so short a time, too. So tests ask for the dead one only.
LAG = {"replica.lag.time.max.ms": "400"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, configs=LAG) as made:
        yield made


def gauges(cluster: LocalCluster, node_id: int) -> dict[str, Any]:
    """Return the values of a broker's gauges and the counts of its meters by name and tags."""
    found: dict[str, Any] = {}
    for sample in cluster.call(lambda: list(cluster.brokers[node_id].metrics.samples())):
        tags = ",".join(value for _, value in sample.name.tags)
        found[f"{sample.name.type}.{sample.name.name}" + (f"[{tags}]" if tags else "")] = sample.values.get(
            "Value", sample.values.get("Count")
        )
    return found


# --- lag ---


def test_a_follower_that_fetches_no_more_leaves_the_in_sync_replicas(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"a")
    cluster.isolate(3)
    cluster.produce(b"b", acks=1)
    cluster.wait_for_isr(1, 2)
    cluster.produce(b"c")
    assert gauges(cluster, 1)["ReplicaManager.IsrShrinksPerSec"] >= 1
    cluster.heal(3)
    cluster.wait_for_isr(1, 2, 3)
    cluster.wait_until_equal(1, 2, 3)
    assert gauges(cluster, 1)["ReplicaManager.IsrExpandsPerSec"] >= 1


def test_a_proposal_has_the_broker_epochs_of_the_followers(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2]])
    cluster.produce(b"a")
    cluster.stop(2)
    cluster.start(2)
    cluster.wait_for_isr(1, 2)
    alteration = cluster.brokers[1].shared.alterations[-1]
    epochs = dict(zip(alteration.isr, alteration.broker_epochs, strict=True))
    assert epochs == {node_id: cluster.brokers[node_id].shared.broker_epoch for node_id in (1, 2)}


def test_a_failed_request_to_the_controller_is_repeated(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"a")
    shared = cluster.brokers[1].shared
    alter = type(shared).alter_partitions
    failures: list[TidelogError] = [ApiError(ErrorCode.NOT_CONTROLLER), ApiError(ErrorCode.STALE_BROKER_EPOCH)]

    async def failing(self: Any, alterations: Any) -> Any:
        if failures:
            raise failures.pop()
        return await alter(self, alterations)

    proposals = cluster.brokers[1].replicas._proposals
    monkeypatch.setattr(proposals, "_send", lambda alterations: failing(shared, alterations))
    cluster.isolate(3)
    cluster.produce(b"b", acks=1)
    cluster.wait_for_isr(1, 2)
    assert not failures


# --- the minimum ---


def test_too_few_in_sync_replicas_refuse_acks_all(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3]], {"min.insync.replicas": "2"})
    cluster.produce(b"a")
    cluster.stop(2)
    cluster.produce(b"b")
    assert gauges(cluster, 1)["Partition.AtMinIsr[t,0]"] == 1
    cluster.stop(3)
    assert cluster.try_produce(b"c").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    found = gauges(cluster, 1)
    assert found["Partition.UnderMinIsr[t,0]"] == 1
    assert found["ReplicaManager.UnderMinIsrPartitionCount"] == 1
    cluster.produce(b"d", acks=1)
    assert cluster.log(1).high_watermark == 2
    cluster.start(2)
    cluster.wait_for_isr(1, 2)
    cluster.wait_until_equal(1, 2)
    assert cluster.log(1).high_watermark == 3


def test_acks_all_waits_until_the_lagging_follower_has_left(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"a")
    cluster.isolate(3)
    cluster.produce(b"b")
    assert 3 not in cluster.state().isr
    assert cluster.log(1).high_watermark == 2


def test_acks_all_fails_when_another_broker_becomes_the_leader(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2]])
    cluster.produce(b"a")
    cluster.isolate(2)
    responses: list[Struct] = []
    waiting = threading.Thread(target=lambda: responses.append(cluster.try_produce(b"b", node_id=1)))
    waiting.start()
    cluster.wait_for(lambda: len(cluster.brokers[1].replicas.partition(T0).purgatory) > 0)
    cluster.fence(1)
    waiting.join(PATIENCE_S)
    (found,) = responses
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_acks_all_times_out(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.create_topic("t", [[1, 2]])
        cluster.produce(b"a")
        cluster.isolate(2)
        assert cluster.try_produce(b"b", timeout_ms=300).error_code == ErrorCode.REQUEST_TIMED_OUT


# --- metrics ---


def test_metrics_of_partitions(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"a")
    leader, follower = gauges(cluster, 1), gauges(cluster, 2)
    for name, value in {"InSyncReplicasCount": 3, "ReplicasCount": 3, "UnderReplicated": 0, "AtMinIsr": 0}.items():
        assert (leader[f"Partition.{name}[t,0]"], follower[f"Partition.{name}[t,0]"]) == (value, 0), name
    cluster.stop(3)
    found = gauges(cluster, 1)
    assert found["Partition.UnderReplicated[t,0]"] == found["ReplicaManager.UnderReplicatedPartitions"] == 1


def test_metrics_of_fetchers(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"a" * 1000)
    cluster.wait_until_equal(1, 2, 3)
    found = gauges(cluster, 2)
    assert found["FetcherLagMetrics.ConsumerLag[ReplicaFetcherThread-0-1,t,0]"] == 0
    assert found["ReplicaFetcherManager.MaxLag[Replica]"] == 0
    assert found["ReplicaFetcherManager.FailedPartitionsCount[Replica]"] == 0
    address = f"127.0.0.1,{cluster.brokers[1].listeners[0].port}"
    assert found[f"FetcherStats.RequestsPerSec[ReplicaFetcherThread-0-1,{address}]"] >= 1
    size = len(cluster.segment_bytes(1))
    assert found[f"FetcherStats.BytesPerSec[ReplicaFetcherThread-0-1,{address}]"] == size
    assert found["BrokerTopicMetrics.ReplicationBytesInPerSec"] == size
    assert gauges(cluster, 1)["BrokerTopicMetrics.ReplicationBytesOutPerSec"] == 2 * size
    cluster.delete_topic("t")
    assert not [name for name in gauges(cluster, 2) if name.startswith(("Fetcher", "Partition."))]


def test_the_new_replicas_of_a_reassignment_are_not_missing(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2]])
    cluster.produce(b"a")
    cluster.isolate(3)
    cluster.reassign([1, 2, 3])
    found = gauges(cluster, 1)
    assert found["Partition.ReplicasCount[t,0]"] == 2
    assert found["Partition.UnderReplicated[t,0]"] == 0
    assert found["ReplicaManager.ReassigningPartitions"] == 1
    cluster.heal(3)
    cluster.wait_for_isr(1, 2, 3)
    cluster.wait_for(lambda: not cluster.brokers[1].replicas.partition(T0).is_reassigning)
    assert gauges(cluster, 3)["BrokerTopicMetrics.ReassignmentBytesInPerSec"] > 0
    assert gauges(cluster, 1)["BrokerTopicMetrics.ReassignmentBytesOutPerSec"] > 0
