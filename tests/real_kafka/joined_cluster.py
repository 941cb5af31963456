"""A cluster of a real Kafka controller and brokers of tidelog: ``tidelog serve`` with ``process.roles=broker``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from real_kafka.broker import CLUSTER_ID
from real_kafka.cluster import PATIENCE_S, Cluster
from real_kafka.tidelog_node import TidelogNode

_BROKER = {
    "process.roles": "broker",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "CLIENT",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "broker.heartbeat.interval.ms": "400",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class JoinedCluster(Cluster):
    """The controller takes a snapshot after each few records. ``tidelog`` has the brokers by number."""

    def __init__(
        self, root: Path, *, numbers: Sequence[int] = (1,), properties: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(root, brokers=())
        self._tidelog_numbers = tuple(numbers)
        self._tidelog_properties = dict(properties or {})
        self.tidelog: dict[int, TidelogNode] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for node in self.tidelog.values():
            node.kill()
        self.controller.kill()
        super().__exit__(*error)  # type: ignore[arg-type] # the three arguments of a context's end

    def start(self) -> None:
        """Start the controller and the brokers. Return when every broker serves."""
        self._make_nodes()
        self._format()
        self.controller.launch()
        self.controller.wait_until_started(PATIENCE_S)
        for number in self._tidelog_numbers:
            self.add_broker(number).launch()
        for node in self.tidelog.values():
            node.wait_until_started(PATIENCE_S)

    def add_broker(self, number: int, *, node_id: int | None = None, cluster_id: str = CLUSTER_ID) -> TidelogNode:
        """Return a new broker with a formatted directory. ``number`` names its directory and is its default id."""
        port = self._keep_port()
        properties = {
            **_BROKER,
            "controller.quorum.voters": self.voters,
            "listeners": f"CLIENT://127.0.0.1:{port}",
            **self._tidelog_properties,
        }
        node = TidelogNode(node_id or number, root=self.root / f"tidelog-{number}", properties=properties)
        node.format(cluster_id)
        self.tidelog[number] = node
        self._internal[number] = f"127.0.0.1:{port}"
        return node

    @property
    def voters(self) -> str:
        for line in self.controller.properties_file.read_text().splitlines():
            if line.startswith("controller.quorum.voters="):
                return line.partition("=")[2]
        raise AssertionError("no voters")

    def snapshots(self) -> list[Path]:
        return sorted((self.controller.directory / "__cluster_metadata-0").glob("*.checkpoint"))

    def known_brokers(self) -> set[int]:
        """Return the brokers that are registered and not fenced."""
        return set(self.admin.list_topics(timeout=10).brokers)

    def _make_nodes(self) -> None:
        super()._make_nodes()
        with self.controller.properties_file.open("a") as properties:
            properties.write("metadata.log.max.record.bytes.between.snapshots=2000\n")
