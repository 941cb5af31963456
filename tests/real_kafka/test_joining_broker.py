"""A real controller takes a broker of tidelog's cores into its cluster; the metadata is copied byte for byte."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from real_kafka.cluster import CONTROLLER, Cluster
from real_kafka.joining_broker import JoiningBroker, now_ms
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import BrokerState

NUMBER = 9
METADATA = "__cluster_metadata-0"


class QuorumCluster(Cluster):
    """A cluster of a controller and a broker. The controller takes a snapshot after each few records."""

    def _make_nodes(self) -> None:
        super()._make_nodes()
        with self.controller.properties_file.open("a") as properties:
            properties.write("metadata.log.max.record.bytes.between.snapshots=2000\n")

    @property
    def address(self) -> str:
        for line in self.controller.properties_file.read_text().splitlines():
            if line.startswith("controller.quorum.voters="):
                return line.rpartition("@")[2]
        raise AssertionError("no voters")

    def known_brokers(self) -> set[int]:
        """Return the brokers that Kafka's clients see: registered and not fenced."""
        return set(self.admin.list_topics(timeout=10).brokers)

    def controllers_log(self) -> bytes:
        directory = self.controller.directory / METADATA
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))

    def snapshots(self) -> list[Path]:
        return sorted((self.controller.directory / METADATA).glob("*.checkpoint"))


def copied(broker: JoiningBroker) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(broker.copy.harness.directory.glob("*.log")))


def has_all(broker: JoiningBroker, cluster: QuorumCluster) -> bool:
    """Return True if the copy ends where the controller's log ends. Its records may begin after a snapshot."""
    ours = copied(broker)
    return len(ours) > 0 and cluster.controllers_log().endswith(ours)


async def life(cluster: QuorumCluster, directory: Path) -> None:
    broker = JoiningBroker(NUMBER, [cluster.address], directory)
    try:
        broker.start()
        # It finds the leader, registers, catches up and is unfenced: clients see it.
        await broker.run_until(lambda: broker.lifecycle.state is BrokerState.RUNNING)
        assert broker.quorum_states[0] == (-1, 0)
        assert broker.quorum_states[-1][0] == CONTROLLER
        assert broker.lifecycle.broker_epoch > 0
        await broker.run_until(lambda: NUMBER in cluster.known_brokers())
        await broker.run_until(lambda: has_all(broker, cluster))

        # Another incarnation must wait until the session has expired.
        other = JoiningBroker(NUMBER, [cluster.address], directory / "other")
        other.start()
        await other.run_until(lambda: ErrorCode.DUPLICATE_BROKER_REGISTRATION in other.errors)
        await other.close()

        # Without heartbeats the session expires, and the broker is fenced. The next heartbeats unfence it.
        broker.is_silent = True
        await broker.run_until(lambda: NUMBER not in cluster.known_brokers())
        broker.is_silent = False
        await broker.run_until(lambda: NUMBER in cluster.known_brokers())
        assert broker.lifecycle.state is BrokerState.RUNNING

        # The controller restarts: another epoch, and every broker has a full session.
        epoch = broker.observer.epoch
        cluster.controller.kill()
        cluster.controller.launch()
        await broker.run_until(lambda: broker.observer.epoch > epoch and broker.observer.leader is not None)
        broker.errors.clear()
        await broker.run_until(lambda: has_all(broker, cluster) and NUMBER in cluster.known_brokers())

        # A failed log directory is accepted; then a controlled shutdown ends with the controller's permission.
        broker.take(broker.lifecycle.fail_directory(broker.log_dirs[1], now_ms()))
        offset = broker.copy.end_offset
        await broker.run_until(lambda: broker.copy.end_offset > offset)
        broker.take(broker.lifecycle.begin_controlled_shutdown(now_ms()))
        await broker.run_until(lambda: broker.lifecycle.state is BrokerState.SHUTTING_DOWN)
        cluster.wait("clients no longer see it", lambda: NUMBER not in cluster.known_brokers())
    finally:
        await broker.close()


async def late(cluster: QuorumCluster, directory: Path) -> None:
    """Join after the controller has taken snapshots: the copy begins with the last one."""
    broker = JoiningBroker(NUMBER + 1, [cluster.address], directory)
    try:
        broker.start()
        await broker.run_until(lambda: broker.lifecycle.state is BrokerState.RUNNING and has_all(broker, cluster))
        assert broker.snapshots > 0
        assert broker.copy.snapshot in [path.read_bytes() for path in cluster.snapshots()]
        assert broker.copy.log.log_start_offset == broker.copy.snapshot_id[0]  # type: ignore[index] # it has one
    finally:
        await broker.close()


@pytest.mark.kafka
def test_a_controller_of_kafkas_takes_the_broker_in(tmp_path: Path) -> None:
    cluster = QuorumCluster(tmp_path / "cluster", brokers=(1,))
    with cluster:
        cluster.start()
        asyncio.run(life(cluster, tmp_path / "copy"))
        for number in range(6):
            cluster.create_topic(f"t{number}", partitions=3, replicas=1)
        cluster.wait("a snapshot", lambda: len(cluster.snapshots()) > 1)
        asyncio.run(late(cluster, tmp_path / "late"))
