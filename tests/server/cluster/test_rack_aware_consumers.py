"""A consumer's assignor learns the racks of replicas and of members from brokers in one process (KIP-881)."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Consumer

from server.cluster.local_cluster import LocalCluster
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC
from tidelog.testing.broker.loop_thread import PATIENCE_S

RACKS = {3: "a", 1: "b", 2: "c"}
"""The rack of each broker. Brokers and racks have different orders, so an assignment without racks does not fit."""


def test_members_get_the_partitions_with_a_replica_in_their_rack(tmp_path: Path) -> None:
    made = LocalCluster(tmp_path, configs={"group.initial.rebalance.delay.ms": "0"})
    made.own_configs = {node_id: {"broker.rack": rack} for node_id, rack in RACKS.items()}
    with made as cluster:
        cluster.create_topic(GROUP_METADATA_TOPIC, [[1]])
        cluster.create_topic("t", [[1], [2], [3], [1], [2], [3]])
        members = {rack: member(cluster, rack) for rack in RACKS.values()}
        expected = {rack: {node_id - 1, node_id + 2} for node_id, rack in RACKS.items()}
        try:
            give_up = time.monotonic() + PATIENCE_S
            while (found := {rack: assigned(consumer) for rack, consumer in members.items()}) != expected:
                assert time.monotonic() < give_up, found
        finally:
            for consumer in members.values():
                consumer.close()


def member(cluster: LocalCluster, rack: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{cluster.brokers[1].listeners[0].port}",
            "group.id": "g",
            "client.rack": rack,
            "partition.assignment.strategy": "range",
        }
    )
    consumer.subscribe(["t"])
    return consumer


def assigned(consumer: Consumer) -> set[int]:
    """Let the consumer take part in the group, and return its partitions."""
    consumer.poll(0.05)
    return {one.partition for one in consumer.assignment()}
