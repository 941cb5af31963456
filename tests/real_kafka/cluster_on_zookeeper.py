"""A cluster of three brokers on ZooKeeper: Kafka 3.9 or ``tidelog serve``, each of which can be stopped and killed.

There are one or three ZooKeeper servers. Each broker reaches each of them through a `Link` of its own, so a test can
disconnect one broker from ZooKeeper, for longer than its session. The harness reads the znodes directly (``znodes``).

    with ClusterOnZooKeeper(tmp_path, servers=3) as cluster:
        cluster.start()
        cluster.create_topic("t", partitions=3, replicas=3)
        …
        cluster.kill(cluster.controller_broker())
        cluster.wait_until_settled()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from real_kafka.cluster import BROKER, BROKERS, HEAP_MIB, PATIENCE_S, SMALL, Cluster
from real_kafka.cluster_node import Node, Program
from real_kafka.java import KRAFT_3
from real_kafka.zookeeper_cluster import ZooKeeperServer
from real_kafka.zookeeper_ensemble import ZnodeClient, ZooKeeperEnsemble
from server.harness import WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.testing.cluster.link import Link

CHROOT: Final = "/kafka/rounds"
SESSION_S: Final = 3.0
"""The timeout of a broker's session."""
_METADATA_VERSION: Final = 9
"""A version of Metadata that Kafka 3.9 and tidelog have."""
_PROPERTIES: Final[Mapping[str, str]] = {
    **SMALL,
    **BROKER,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "zookeeper.session.timeout.ms": str(int(SESSION_S * 1000)),
    "zookeeper.connection.timeout.ms": "60000",
    "controlled.shutdown.retry.backoff.ms": "500",
}

Leaderships = dict[tuple[str, int], tuple[int, frozenset[int]]]
"""The leader and the in-sync replicas of each partition."""


class NodeOnZooKeeper(Node):
    """A broker with a ``broker.id``. Its directory needs no format."""

    ID_KEY = "broker.id"
    LOGGER_OF_THE_START = "kafka.server.KafkaServer"

    @property
    def _started(self) -> str:
        return f"[KafkaServer id={self.number}] started" if self.program is Program.KAFKA else self.program.started


class ClusterOnZooKeeper(Cluster):
    """Leaving the context ends the brokers and the ZooKeeper servers."""

    def __init__(
        self,
        root: Path,
        *,
        servers: int = 1,
        program: Program = Program.TIDELOG,
        properties: Mapping[str, str] | None = None,
        brokers: Sequence[int] = BROKERS,
    ) -> None:
        super().__init__(
            root,
            release=KRAFT_3,
            properties=properties,
            brokers=brokers,
            controllers=(),
            programs=dict.fromkeys(brokers, program),
        )
        self.zookeeper = self._stack.enter_context(ZooKeeperEnsemble(root / "zookeeper", servers))
        self.znodes = ZnodeClient(self.zookeeper.address, CHROOT)
        self._links_to_zookeeper: dict[int, list[Link]] = {}

    def start(self) -> None:
        self.prepare()
        for node in self.brokers.values():
            node.launch()
        for node in self.brokers.values():
            node.wait_until_started(PATIENCE_S)
        self.wait("all brokers are known", lambda: len(self.admin.list_topics(timeout=10).brokers) == len(self.brokers))

    def prepare(self) -> None:
        """Start ZooKeeper, and write the properties of the brokers without starting them."""
        self.zookeeper.start()
        self._stack.enter_context(self.znodes)
        self._make_nodes()

    def port(self, number: int) -> int:
        """Return the port of a broker's listener that no fault of a link affects."""
        return int(self._internal[number].rpartition(":")[2])

    def connect(self, number: int) -> str:
        """Return the value of a broker's ``zookeeper.connect``."""
        return ",".join(link.address for link in self._links_to_zookeeper[number]) + CHROOT

    def kill_and_restart(self, number: int) -> None:
        """Kill a broker, wait until its session is over, and start it again."""
        self.kill(number)
        self.wait_until_unregistered(number)
        self.restart(number)

    def restart(self, *numbers: int) -> None:
        """Start brokers that were stopped or killed. Kafka does not start while its previous session lasts."""
        for number in numbers:
            if self.brokers[number].program is Program.KAFKA:
                self.wait_until_unregistered(number)
        super().restart(*numbers)

    # --- ZooKeeper ---

    def controller_broker(self) -> int:
        """Wait until one of the brokers is the controller, and return its number."""
        found: list[int] = []

        def is_elected() -> bool:
            number = self.znodes.controller()
            found[:] = [number] if number is not None and self.znodes.broker_epoch(number) is not None else []
            return bool(found)

        self.wait("a controller", is_elected)
        return found[0]

    def disconnect_from_zookeeper(self, number: int, *, is_silent: bool) -> None:
        """Let a broker reach no ZooKeeper server. Connections are reset, or ``is_silent`` lets them pass no byte."""
        for link in self._links_to_zookeeper[number]:
            if is_silent:
                link.freeze()
            else:
                link.disconnect()

    def heal(self, number: int) -> None:
        for link in self._links_to_zookeeper[number]:
            link.heal()

    def delay_zookeeper(self, seconds: float) -> None:
        """Let each byte between the brokers and ZooKeeper arrive later."""
        for links in self._links_to_zookeeper.values():
            for link in links:
                link.delay(seconds)

    def wait_until_unregistered(self, number: int) -> None:
        """Return when the broker's session is over, or the broker has ended it."""
        self.wait(f"the session of broker {number} is over", lambda: self.znodes.broker_epoch(number) is None)

    def wait_until_registered(self, number: int, *, after: int | None) -> None:
        """Return when the broker has another epoch than ``after``."""
        self.wait(
            f"broker {number} has registered again", lambda: self.znodes.broker_epoch(number) not in (None, after)
        )

    # --- the brokers' views ---

    def wait_until_settled(self) -> None:
        """Return when all brokers are registered, all replicas in sync, and each broker shows the znodes' leaders."""
        self.wait("all replicas are in sync, and every broker shows it", self._is_settled)

    def _is_settled(self) -> bool:
        running = [number for number, node in self.brokers.items() if node.is_running]
        if any(self.znodes.broker_epoch(number) is None for number in running) or self.znodes.controller() is None:
            return False
        wanted: Leaderships = {}
        for place, (topic, state) in self.znodes.states().items():
            if state is None or state.leader < 0 or set(state.isr) != set(topic.replicas[place[1]]):
                return False
            wanted[place] = state.leader, frozenset(state.isr)
        return all(self.leaderships_at(number) == wanted for number in running)

    def leaderships_at(self, number: int) -> Leaderships:
        """Return the leader and the in-sync replicas of each partition as one broker shows them."""
        try:
            with WireClient(self.port(number)) as client:
                found = client.call(
                    ApiKey.METADATA,
                    _METADATA_VERSION,
                    topics=None,
                    allow_auto_topic_creation=False,
                    include_cluster_authorized_operations=False,
                    include_topic_authorized_operations=False,
                )
        except OSError:
            return {}
        return {
            (str(topic.name), int(one.partition_index)): (int(one.leader_id), frozenset(one.isr_nodes))
            for topic in found.topics
            for one in topic.partitions
        }

    # --- the nodes ---

    def _make_nodes(self) -> None:
        for number in self._numbers:
            link = self._network.link(self._keep_port())
            internal = f"127.0.0.1:{self._keep_port()}"
            self._links_to_zookeeper[number] = [self._link_to(server) for server in self.zookeeper.servers]
            properties = {
                **_PROPERTIES,
                "listeners": f"CLIENT://127.0.0.1:{link.target},INTERNAL://{internal}",
                "advertised.listeners": f"CLIENT://{link.address},INTERNAL://{internal}",
                "zookeeper.connect": self.connect(number),
                **self._properties,
            }
            self.links[number], self._internal[number] = link, internal
            self.brokers[number] = NodeOnZooKeeper(
                number,
                directory=self.root / f"node-{number}" / "data",
                work=self.root / f"node-{number}" / "work",
                properties=properties,
                heap_mib=HEAP_MIB["broker"],
                release=self.release,
                program=self._programs[number],
            )

    def _link_to(self, server: ZooKeeperServer) -> Link:
        return self._network.link(int(server.address.rpartition(":")[2]))
