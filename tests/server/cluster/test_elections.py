"""Elections of leaders between brokers in one process: unclean ones, and eligible leader replicas (KIP-966)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.cluster.local_cluster import LocalCluster
from tidelog.protocol.errors import ErrorCode
from tidelog.server.metadata.partition_state import NO_LEADER
from tidelog.server.metadata.requests import NewTopic

UNCLEAN = "unclean.leader.election.enable"
REPLICATED, LOST, NEW = b"replicated", b"lost", b"new"


# --- unclean elections ---


@pytest.mark.parametrize(
    ("broker", "topic", "is_allowed"),
    [
        ({}, {}, False),
        ({UNCLEAN: "true"}, {}, True),
        ({}, {UNCLEAN: "true"}, True),
        ({UNCLEAN: "true"}, {UNCLEAN: "false"}, False),
    ],
    ids=["default", "allowed by the broker", "allowed by the topic", "forbidden by the topic"],
)
def test_a_replica_out_of_sync_leads_only_if_that_is_allowed(
    tmp_path: Path, broker: dict[str, str], topic: dict[str, str], *, is_allowed: bool
) -> None:
    with LocalCluster(tmp_path, 2, broker) as cluster:
        cluster.create_topic("t", [[1, 2]], topic)
        cluster.produce(REPLICATED)
        cluster.stop(2)
        cluster.produce(LOST)
        cluster.stop(1)
        cluster.start(2)
        if is_allowed:
            assert (cluster.leader(), cluster.state().is_recovering) == (2, True)
            cluster.produce(NEW)
        else:
            assert cluster.leader() == NO_LEADER
            assert cluster.try_produce(NEW, node_id=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster.start(1)
        cluster.wait_for_isr(1, 2)
        cluster.wait_until_equal(1, 2)
        assert (cluster.leader(), cluster.state().is_recovering) == (2 if is_allowed else 1, False)
        assert cluster.segment_bytes(1) == cluster.segment_bytes(2)
        found = [value for value in (REPLICATED, LOST, NEW) if value in cluster.segment_bytes(1)]
        assert found == [REPLICATED, NEW if is_allowed else LOST]


def test_a_topic_with_an_invalid_permission_is_refused(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        new = NewTopic(name="t", assignments=[(0, [1, 2])], configs={UNCLEAN: "invalid"})
        (result,) = cluster.run(lambda: cluster.metadata.create_topics([new]))
        assert result.error is ErrorCode.INVALID_CONFIG


# --- eligible leader replicas ---


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Yield brokers with a partition that needs two in-sync replicas. Broker 1 leads, broker 3 is away."""
    with LocalCluster(tmp_path) as made:
        made.create_topic("t", [[1, 2, 3]], {"min.insync.replicas": "2"})
        made.produce(REPLICATED)
        made.stop(3)
        yield made


def eligible(cluster: LocalCluster) -> tuple[tuple[int, ...], set[int], int]:
    """Return the in-sync replicas, the eligible leader replicas, and the leader."""
    state = cluster.state()
    return state.isr, set(state.elr), state.leader


def require_all_in_sync(cluster: LocalCluster) -> None:
    for node_id in {1, 2, 3} - cluster.brokers.keys():
        cluster.start(node_id)
    cluster.wait_for_isr(1, 2, 3)
    cluster.wait_until_equal(1, 2, 3)
    assert len({cluster.segment_bytes(node_id) for node_id in (1, 2, 3)}) == 1
    assert REPLICATED in cluster.segment_bytes(1)
    assert not cluster.state().elr


def test_an_eligible_replica_leads_without_a_loss(cluster: LocalCluster) -> None:
    cluster.stop(2)
    assert eligible(cluster) == ((1,), {2}, 1)
    cluster.produce(LOST, acks=1)
    cluster.stop(1)
    assert eligible(cluster) == ((), {1, 2}, NO_LEADER)
    cluster.start(3)
    assert cluster.leader() == NO_LEADER, "broker 3 may lack acknowledged records"
    cluster.start(2)
    assert (cluster.leader(), cluster.state().is_recovering) == (2, False)
    require_all_in_sync(cluster)
    assert LOST not in cluster.segment_bytes(1), "the record was never replicated"


def test_an_unclean_shutdown_ends_the_eligibility(cluster: LocalCluster) -> None:
    cluster.kill(2)
    cluster.stop(1)
    assert eligible(cluster) == ((), {1, 2}, NO_LEADER)
    cluster.start(2)
    assert eligible(cluster) == ((), {1}, NO_LEADER)
    cluster.start(1)
    assert (cluster.leader(), cluster.state().is_recovering) == (1, False)
    require_all_in_sync(cluster)


def test_the_last_known_leader_leads_if_no_replica_is_eligible(cluster: LocalCluster) -> None:
    cluster.kill(2)
    cluster.kill(1)
    assert cluster.state().last_known_elr == (1,)
    cluster.start(2)
    assert eligible(cluster) == ((), {1}, NO_LEADER)
    cluster.start(1)
    assert eligible(cluster)[1:] == (set(), 1)
    require_all_in_sync(cluster)
    assert not cluster.state().is_recovering
