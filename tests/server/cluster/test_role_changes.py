"""Brokers that leave a partition: a controlled shutdown, a reassignment, and the metrics that end with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.cluster.local_cluster import LocalCluster
from server.cluster.test_in_sync_replicas import gauges
from tidelog.model import TopicPartition
from tidelog.server.metadata.partition_state import NO_LEADER


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path) as made:
        yield made


def test_a_controlled_shutdown_ends_leaderships_and_leaves_the_in_sync_replicas(cluster: LocalCluster) -> None:
    out_of_sync, in_sync, led = (TopicPartition(topic, number) for topic, number in (("t", 0), ("u", 0), ("u", 1)))
    cluster.create_topic("t", [[1, 2]])
    cluster.isolate(2)
    cluster.fence(2)
    cluster.unfence(2)
    cluster.stop(3)
    cluster.create_topic("u", [[1, 2], [2, 3]])
    before = {one: cluster.state(one) for one in (out_of_sync, in_sync, led)}
    assert [state.isr for state in before.values()] == [(1,), (1, 2), (2,)]
    cluster.run(cluster.brokers[2].shared.hand_over)
    assert cluster.state(out_of_sync) == before[out_of_sync]
    assert (cluster.state(in_sync).isr, cluster.state(in_sync).partition_epoch) == ((1,), 1)
    assert (cluster.leader(led), cluster.state(led).leader_epoch) == (NO_LEADER, 1)
    found = {one: cluster.partition(2, one) for one in before}
    assert [(one.is_leading, one.is_following) for one in found.values()] == [(False, True)] * 2 + [(False, False)]
    assert [one.leader_epoch for one in found.values()] == [0, 0, 1]


@pytest.mark.parametrize("moved", [1, 2], ids=["the leader", "a follower"])
def test_a_broker_that_a_partition_has_left_reports_nothing_of_it(cluster: LocalCluster, moved: int) -> None:
    cluster.create_topic("t", [[1, 2]])
    cluster.produce(b"a")
    cluster.wait_until_equal(1, 2)

    def reported(node_id: int) -> list[str]:
        return [name for name in gauges(cluster, node_id) if name.endswith("t,0]")]

    assert reported(moved)
    cluster.reassign([node_id for node_id in (1, 2, 3) if node_id != moved])
    cluster.wait_for(lambda: TopicPartition("t", 0) not in cluster.brokers[moved].logs.partitions())
    assert reported(moved) == []
    assert reported(3)
