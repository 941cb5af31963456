"""A cluster of three processes with the part of ``tidelog.testing.Broker`` that the client tests use.

Topics have three replicas. An end of the broker is the end of one process, of each one in turn: the first one is the
controller too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import PartitionMetadata

from server.cluster.process_cluster import BROKERS, CONTROLLER, PATIENCE_S, ProcessCluster
from server.harness import KEEPING, WireClient
from tidelog.protocol.api_key import ApiKey

REPLICATED = {
    "default.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "min.insync.replicas": "2",
}


class Stored(NamedTuple):
    value: bytes | None


class ThreeBrokers:
    node_ids = BROKERS

    def __init__(self, cluster: ProcessCluster) -> None:
        self.cluster = cluster
        self.bootstrap_servers = cluster.bootstrap
        self._turns = cycle(BROKERS)
        self._ended: int | None = None

    @property
    def directories(self) -> list[Path]:
        """The log directories. Each one has all partitions."""
        return [disk for number in BROKERS for disk in self.cluster.disks(number)]

    # --- its life ---

    def stop(self) -> None:
        """Shut down the next broker in turn cleanly."""
        self._ended = next(self._turns)
        self.cluster.nodes[self._ended].stop(PATIENCE_S)

    def kill(self) -> None:
        """Kill the next broker in turn."""
        self._ended = next(self._turns)
        self.cluster.nodes[self._ended].kill()

    def start(self) -> None:
        """Start the broker that ended. Return when its replicas are in sync."""
        assert self._ended is not None, "a broker has ended"
        self.cluster.restart(self._ended)
        self.settle()

    def settle(self) -> None:
        """Wait until all brokers know of the changes so far, and all replicas are in sync."""

        def partitions() -> Iterator[PartitionMetadata]:
            for topic in self.cluster.admin.list_topics(timeout=PATIENCE_S).topics.values():
                yield from topic.partitions.values()

        self.cluster.wait_for_metadata()
        self.cluster.wait_for("all replicas are in sync", lambda: all(len(one.isrs) == 3 for one in partitions()))

    def restart(self) -> None:
        """Shut down and start all brokers, one at a time."""
        for _ in BROKERS:
            self.stop()
            self.start()

    def coordinator(self, group: str) -> WireClient:
        """Open a connection to a group's coordinator, which the caller closes."""
        with self.cluster.client(CONTROLLER) as client:
            (found,) = client.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[group]).coordinators
        assert found.error_code == 0, found
        return self.cluster.client(found.node_id)

    # --- topics ---

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self.cluster.create_topic(name, partitions)
        self.cluster.wait_for_metadata()

    def recreate_topic(self, name: str, partitions: int = 1) -> None:
        if name in self.cluster.admin.list_topics(timeout=PATIENCE_S).topics:
            (deleted,) = self.cluster.admin.delete_topics([name]).values()
            deleted.result(PATIENCE_S)
        self.create_topic(name, partitions)

    def move_leader_epoch(self, topic: str, partition: int = 0) -> None:
        """Elect another leader: the former one becomes the last replica."""
        state = self.cluster.partitions(topic)[partition]
        replicas = sorted(state.replicas, key=lambda replica: replica == state.leader)
        moved = {"partition_index": partition, "replicas": replicas}
        with self.cluster.client(CONTROLLER) as client:
            answer = client.call(
                ApiKey.ALTER_PARTITION_REASSIGNMENTS, topics=[{"name": topic, "partitions": [moved]}], timeout=60_000
            )
            assert answer.responses[0].partitions[0].error_code == 0, answer
        self.cluster.elect_preferred_leaders(topic)
        self.cluster.wait_for_metadata()
        assert self.cluster.partitions(topic)[partition].leader == replicas[0]

    def records(self, topic: str) -> list[Stored]:
        """Return the committed records of a topic's first partition."""
        settings = {"bootstrap.servers": self.bootstrap_servers, "group.id": "nobody", "enable.auto.commit": False}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[Stored] = []
        try:
            while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
                found.append(Stored(message.value()))
            return found
        finally:
            consumer.close()


@contextmanager
def three_brokers(directory: Path, configs: Mapping[str, str] | None = None) -> Iterator[ThreeBrokers]:
    with ProcessCluster(directory, {**KEEPING, **REPLICATED, **(configs or {})}) as cluster:
        yield ThreeBrokers(cluster)
