"""Throttled replication (KIP-73): the quotas of leaders and followers."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.cluster.local_cluster import T0, LocalCluster
from tidelog.protocol.errors import ErrorCode
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.requests import QuotaChange
from tidelog.server.replicas.replication_quota import Side

RATE = 60_000
BATCHES, SIZE = 20, 10_000
LEAST_MS = (BATCHES * SIZE - 2 * RATE) / RATE * 1000
"""The time for all batches at the rate, without the bytes that the quota's first samples let pass."""


def lag_behind(cluster: LocalCluster, *, rolls: bool = False) -> None:
    """Create a topic with records that its follower, broker 2, lacks and is out of sync for. ``rolls`` gives each
    batch a segment of its own."""
    cluster.create_topic("t", [[1, 2]])
    cluster.stop(2)
    for _ in range(BATCHES):
        cluster.produce(b"x" * SIZE, acks=1)
        if rolls:
            cluster.call(lambda: cluster.brokers[1].replicas.partition(T0).log.roll())


def catch_up_ms(cluster: LocalCluster) -> int:
    """Start the follower, and return the time until it has everything."""
    now_ms = cluster.brokers[1].timers.monotonic_ms
    cluster.start(2)
    begun_ms = now_ms()
    cluster.wait_until_equal(1, 2)
    return now_ms() - begun_ms


@pytest.mark.parametrize("side", Side)
def test_a_throttled_replica_catches_up_at_the_rate(tmp_path: Path, side: Side) -> None:
    with LocalCluster(tmp_path, 2, {"replica.fetch.max.bytes": "10000"}) as cluster:
        lag_behind(cluster)
        throttled = 1 if side is Side.LEADER else 2
        cluster.configure(ResourceType.TOPIC, "t", {side.replicas_key: f"0:{throttled}"})
        cluster.configure(ResourceType.BROKER, str(throttled), {side.rate_key: str(RATE)})
        assert catch_up_ms(cluster) >= LEAST_MS
        found = {
            sample.name.type: sample.values["Value"]
            for sample in cluster.call(lambda: list(cluster.brokers[throttled].metrics.samples()))
            if sample.name.name == "byte-rate" and sample.name.type.endswith("Replication")
        }
        assert found[f"{side.value.title()}Replication"] > 0


def test_older_segments_are_throttled_too(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2, {"replica.fetch.max.bytes": "10000"}) as cluster:
        lag_behind(cluster, rolls=True)
        cluster.configure(ResourceType.TOPIC, "t", {Side.LEADER.replicas_key: "0:1"})
        cluster.configure(ResourceType.BROKER, "1", {Side.LEADER.rate_key: str(RATE)})
        assert catch_up_ms(cluster) >= LEAST_MS
        assert cluster.segment_bytes(1) == cluster.segment_bytes(2)


@pytest.mark.parametrize("side", Side)
def test_replicas_that_the_topic_does_not_name_are_not_throttled(tmp_path: Path, side: Side) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        lag_behind(cluster)
        cluster.configure(ResourceType.TOPIC, "t", {side.replicas_key: "0:7,1:1,1:2"})
        for node_id in ("1", "2"):
            cluster.configure(ResourceType.BROKER, node_id, {side.rate_key: "1"})
        catch_up_ms(cluster)


def test_an_in_sync_replica_is_not_throttled(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.create_topic("t", [[1, 2]])
        cluster.configure(ResourceType.TOPIC, "t", {side.replicas_key: "*" for side in Side})
        for node_id in ("1", "2"):
            cluster.configure(ResourceType.BROKER, node_id, {side.rate_key: "1" for side in Side})
        for _ in range(5):
            cluster.produce(b"x" * SIZE)
        assert cluster.call(lambda: cluster.brokers[1].replicas.leader_quota.is_exceeded)
        assert cluster.call(lambda: cluster.brokers[2].replicas.follower_quota.is_exceeded)


def test_throttled_replicas_follow_the_topics_settings(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 1) as cluster:
        cluster.create_topic("t", [[1]])
        quota = cluster.brokers[1].replicas.leader_quota
        seen = []
        for text in ("*", "0:1", "0:2,3:1", "1:1", ""):
            cluster.configure(ResourceType.TOPIC, "t", {Side.LEADER.replicas_key: text} if text else {})
            seen.append(cluster.call(lambda: quota.is_throttled(T0)))
        assert seen == [True, True, False, False, False]


def test_followers_are_exempt_from_client_quotas(tmp_path: Path) -> None:
    """A default quota is for all clients, and not for the followers, whose principal is the same."""
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.create_topic("t", [[1, 2]])
        quota = QuotaChange((("user", None),), [("consumer_byte_rate", 1.0), ("request_percentage", 0.0001)])
        (outcome,) = cluster.run(lambda: cluster.metadata.alter_client_quotas([quota]))
        assert not outcome.is_failure
        for number in range(3):
            found = cluster.try_produce(b"x" * SIZE + b"%d" % number)  # acks=all waits for the follower
            assert found.error_code == ErrorCode.NONE
        cluster.wait_until_equal(1, 2)
        assert cluster.log(2).end_offset == 3
