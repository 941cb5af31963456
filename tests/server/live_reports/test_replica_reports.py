"""The reports of in-sync replicas and fetchers, from a cluster of three brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.cluster.local_cluster import T0, LocalCluster
from tidelog.server.live_reports.reported_node import ReportedNode, Wanted
from tidelog.server.live_reports.reports import make_report


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, configs={"replica.lag.time.max.ms": "500"}) as made:
        made.create_topic("t", [[1, 2, 3]])
        made.create_topic("alone", [[1]])
        made.produce(b"a", b"b")
        made.wait_until_equal(1, 2, 3)
        yield made


def report(cluster: LocalCluster, node_id: int, name: str, /, **wanted: Any) -> dict[str, Any]:
    reported = ReportedNode(node=cluster.brokers[node_id], started_ms=0)
    return cluster.run(lambda: make_report(reported, name, Wanted(**wanted)))


def test_followers_that_are_caught_up(cluster: LocalCluster) -> None:
    found = report(cluster, 1, "partitions", name="t")
    (row,) = found["rows"]
    assert (row["topic"], row["partition"], row["replicas"], row["isr"]) == ("t", 0, [1, 2, 3], [1, 2, 3])
    assert (row["log_end"], row["high_watermark"], row["largest_lag"]) == (2, 2, 0)
    assert row["leader_epoch"] == cluster.state().leader_epoch
    assert {follower["broker"]: (follower["lag"], follower["behind_ms"]) for follower in row["followers"]} == {
        2: (0, 0),
        3: (0, 0),
    }
    assert found["counts"]["led"] == found["counts"]["partitions"] == 2
    assert report(cluster, 2, "partitions")["total"] == 0, "a follower leads nothing"


def test_a_follower_that_is_gone_is_behind_and_leaves_the_isr(cluster: LocalCluster) -> None:
    cluster.isolate(3)
    cluster.produce(b"c", b"d", b"e", acks=1)
    cluster.wait_for_isr(1, 2)
    found = report(cluster, 1, "partitions")
    (row,) = found["rows"]
    assert row["isr"] == [1, 2]
    assert row["is_under_replicated"]
    assert row["largest_lag"] == 3
    third = next(follower for follower in row["followers"] if follower["broker"] == 3)
    assert not third["in_sync"]
    assert third["lag"] == 3
    assert third["behind_ms"] >= 400
    assert third["last_fetch_ago_ms"] >= 0
    assert found["counts"]["under_replicated"] == 1
    cluster.heal(3)


def test_fetchers_of_a_follower(cluster: LocalCluster) -> None:
    found = report(cluster, 2, "fetchers")
    (row,) = found["rows"]
    assert (row["leader"], row["fetcher"], row["partitions"], row["lag"]) == (1, 0, 1, 0)
    assert row["state"] in ("fetching", "idle")
    assert sum(row["phases"].values()) == 1
    (partition,) = found["partitions"]["rows"]
    assert (partition["topic"], partition["lag"], partition["log_end"]) == ("t", 0, 2)
    assert report(cluster, 2, "fetchers", name="other")["partitions"]["rows"] == []
    assert report(cluster, 1, "fetchers")["rows"] == []


def test_a_fetcher_whose_leader_is_gone_fails(cluster: LocalCluster) -> None:
    cluster.isolate(2)
    cluster.wait_for(lambda: any(one.failures for one in _fetchers(cluster)))
    (row,) = report(cluster, 2, "fetchers")["rows"]
    assert row["state"] == "failing"
    assert row["failures"] >= 1
    cluster.heal(2)


def _fetchers(cluster: LocalCluster) -> list[Any]:
    manager = cluster.brokers[2].replicas.fetchers
    assert manager is not None
    return list(manager.fetchers.values())


def test_an_offline_log_is_counted(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = cluster.partition(1, T0)
    monkeypatch.setattr(partition._log, "get", lambda: None)
    found = report(cluster, 1, "partitions")
    assert found["counts"]["offline"] == 1
    assert found["rows"] == []
