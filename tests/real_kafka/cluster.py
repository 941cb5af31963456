"""A cluster: a controller and three brokers of real Kafka, each of which can be stopped, killed and isolated.

The controller is a process of its own (node 100), so that it elects leaders while any broker is dead. A broker has two
listeners. Clients of the tested program use ``bootstrap``: each connection goes through the broker's `Link`. Brokers
and the harness itself use the other listener, which no fault of a link affects.

There may be three controllers. Each node may be one of tidelog: see ``programs``.

Sessions are short, so a killed broker's leaderships move after two to three seconds. The heartbeat interval is also the
timeout of a heartbeat and of a registration, so it is not much shorter than the session. Leaders do not move back by
themselves. ACLs can be made: the authorizer is on, and the anonymous user may do everything.

    with Cluster(tmp_path) as cluster:
        cluster.start()
        cluster.create_topic("t", partitions=3, replicas=2, segment_bytes=16384)
        …
        cluster.kill(cluster.leader("t", 0))
"""

from __future__ import annotations

import shutil
import socket
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from real_kafka.broker import CLUSTER_ID, BrokerError
from real_kafka.cluster_node import Node, Program
from real_kafka.java import KRAFT_3, NEWEST, run_java
from tidelog.testing.broker.kept_port import keep_port
from tidelog.testing.cluster.link import Link, Network

CONTROLLER = 100
BROKERS = (1, 2, 3)
PATIENCE_S = 120
HEAP_MIB = {"controller": 128, "broker": 256}

SMALL = {
    "super.users": "User:ANONYMOUS",
    "auto.leader.rebalance.enable": "false",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
}
"""The properties of every node, with and without ZooKeeper."""
_EVERY_NODE = {
    **SMALL,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "broker.session.timeout.ms": "2500",
    "broker.heartbeat.interval.ms": "800",
}
BROKER = {
    "inter.broker.listener.name": "INTERNAL",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.min.isr": "1",
    "transaction.max.timeout.ms": "7200000",
    "group.initial.rebalance.delay.ms": "0",
    "replica.lag.time.max.ms": "2000",
    "replica.fetch.wait.max.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "log.initial.task.delay.ms": "300",
    "log.retention.check.interval.ms": "500",
}
"""The properties of every broker, with and without ZooKeeper."""
_KRAFT_BROKER = {
    **BROKER,
    "process.roles": "broker",
    "initial.broker.registration.timeout.ms": str(PATIENCE_S * 1000),
}


class Cluster:
    """Controller, brokers and links. Leaving the context ends all of them."""

    def __init__(
        self,
        root: Path,
        *,
        release: str = NEWEST,
        properties: Mapping[str, str] | None = None,
        brokers: Sequence[int] = BROKERS,
        more_listeners: str = "",
        controllers: Sequence[int] = (CONTROLLER,),
        programs: Mapping[int, Program] | None = None,
        users: Sequence[str] = (),
    ) -> None:
        """Keep the settings. ``root`` receives the directories; ``properties`` are added for every broker.

        ``more_listeners`` come after the others; for a cluster of one broker. ``programs`` names the nodes that are not
        Kafka. ``users`` are the values of ``--add-scram`` with which the cluster is formatted.
        """
        self.release = release
        self.root = root
        self.controllers: dict[int, Node] = {}
        self.brokers: dict[int, Node] = {}
        self.links: dict[int, Link] = {}
        """The link of each broker's listener for clients."""
        self._controller_numbers = tuple(controllers)
        self._numbers = tuple(brokers)
        self._programs = dict(programs or {})
        self._users = tuple(users)
        self._properties = dict(properties or {})
        self._more_listeners = f",{more_listeners}" if more_listeners else ""
        self._internal: dict[int, str] = {}
        self._places: list[socket.socket] = []
        self._admin: AdminClient | None = None
        self._stack = ExitStack()
        self._network = self._stack.enter_context(Network())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin = None
        for node in self._nodes():
            node.kill()
        self._stack.close()
        for place in self._places:
            place.close()

    @property
    def controller(self) -> Node:
        """The first controller."""
        return self.controllers[self._controller_numbers[0]]

    @property
    def bootstrap(self) -> str:
        """The addresses of all links, for the tested program."""
        return ",".join(link.address for link in self.links.values())

    @property
    def direct(self) -> str:
        """The addresses behind the links, for clients that no fault of a link may affect."""
        return ",".join(self._internal.values())

    @property
    def admin(self) -> AdminClient:
        """A client of the cluster that no fault of a link affects."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.direct, "log_level": 2})
        return self._admin

    def start(self) -> None:
        """Format and start all nodes. Return when every broker is registered and serves."""
        self._make_nodes()
        self._format()
        for node in self._nodes():
            node.launch()
        for node in self._nodes():
            node.wait_until_started(PATIENCE_S)
        self.wait("all brokers are known", lambda: len(self.admin.list_topics(timeout=10).brokers) == len(self.brokers))

    def node(self, number: int) -> Node:
        """Return the controller or the broker of that number."""
        return self.controllers.get(number) or self.brokers[number]

    def kill(self, *numbers: int) -> None:
        """Kill nodes with SIGKILL. The leaderships of brokers move when their sessions are over."""
        for number in numbers:
            self.node(number).kill()

    def stop(self, number: int) -> None:
        """Shut a broker down cleanly, after its leaderships have moved."""
        self.brokers[number].stop(PATIENCE_S)

    def stop_all(self) -> None:
        """Shut all nodes down cleanly. Brokers ask a controller, so controllers are the last."""
        for node in self.brokers.values():
            node.ask_to_stop()
        for node in self.brokers.values():
            node.wait_until_stopped(PATIENCE_S)
        for node in self.controllers.values():
            node.stop(PATIENCE_S)

    def restart(self, *numbers: int) -> None:
        """Start nodes that were stopped or killed. Return when they serve."""
        for number in numbers:
            self.node(number).launch()
        for number in numbers:
            self.node(number).wait_until_started(PATIENCE_S)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int = 2,
        assignment: Sequence[Sequence[int]] | None = None,
        segment_bytes: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and return when every partition has a leader and its in-sync replicas.

        ``assignment`` lists the brokers of each partition, the preferred leader first. The key of ``segment_bytes``
        depends on the release, because Kafka 4 forbids small segments by the usual key.
        """
        settings = dict(config or {})
        if segment_bytes is not None:
            key = "segment.bytes" if self.release == KRAFT_3 else "internal.segment.bytes"
            settings[key] = str(segment_bytes)
        if assignment is None:
            total = partitions
            topic = NewTopic(name, num_partitions=total, replication_factor=replicas, config=settings)
        else:
            total, rows = len(assignment), [list(row) for row in assignment]
            topic = NewTopic(name, num_partitions=total, replica_assignment=rows, config=settings)
        self.admin.create_topics([topic])[name].result(PATIENCE_S)
        self.wait(f"{name} has leaders", lambda: self._is_whole(name, total))

    def partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        """Return the leader, replicas and in-sync replicas of each partition. The map is empty for an unknown topic."""
        found = self.admin.list_topics(topic, timeout=PATIENCE_S).topics[topic]
        return {} if found.error is not None else dict(found.partitions)

    def leader(self, topic: str, partition: int) -> int:
        """Return the partition's leader, or -1."""
        return int(self.partitions(topic)[partition].leader)

    def in_sync(self, topic: str, partition: int) -> set[int]:
        return set(self.partitions(topic)[partition].isrs)

    def partition_directory(self, broker: int, topic: str, partition: int) -> Path:
        """Return the directory of a broker's replica."""
        return self.brokers[broker].directory / f"{topic}-{partition}"

    def elect_unclean(self, topic: str, partition: int, leader: int) -> None:
        """Elect ``leader``, the only living replica, although it is out of sync. Records that it lacks are lost."""
        target = KafkaPartition(topic, partition)

        def is_elected() -> bool:
            try:
                self.admin.elect_leaders(ElectionType.UNCLEAN, [target]).result(10)
            except KafkaException:
                return False
            return self.leader(topic, partition) == leader

        self.wait(f"broker {leader} leads {topic}-{partition}", is_elected)

    def kill_leader(self, topic: str, partition: int) -> int:
        """Kill the leader of a partition, and return its number when another in-sync replica leads.

        A replica of a busy machine can leave the in-sync replicas just before the kill, and then none may lead. So the
        leader is restarted and killed again.
        """
        old, _ = self._leader_and_follower(topic, partition)
        while not self._moves_when_killed(topic, partition, old):
            self.restart(old)
            old, _ = self._leader_and_follower(topic, partition)
        return old

    def _moves_when_killed(self, topic: str, partition: int, leader: int) -> bool:
        """Kill a leader. Return True when another replica leads, and False if the dead one is the only one in sync."""
        self.kill(leader)

        def is_decided() -> bool:
            state = self.partitions(topic)[partition]
            return set(state.isrs) == {leader} or state.leader not in (leader, -1)

        self.wait(f"another leader of {topic}-{partition}", is_decided)
        return self.in_sync(topic, partition) != {leader}

    def lose_records(self, topic: str, partition: int, write: Callable[[], None]) -> tuple[int, int]:
        """Lose the records that ``write`` appends by an unclean election, and return the old and the new leader.

        The partition needs two living replicas. At the end both live; the old leader has truncated to the new one.
        """
        old, new = self.only_leader_in_sync(topic, partition)
        write()
        self.kill(old)
        self.restart(new)
        self.elect_unclean(topic, partition, new)
        self.restart(old)
        self.wait(f"both replicas of {topic}-{partition}", lambda: self.in_sync(topic, partition) == {old, new})
        return old, new

    def only_leader_in_sync(self, topic: str, partition: int) -> tuple[int, int]:
        """Kill the follower until only the leader is in sync, and return both.

        On a busy machine the controller can lose the leader's heartbeats before it misses the follower's, and choose
        the dead follower.
        """
        while True:
            old, new = self._leader_and_follower(topic, partition)
            self.kill(new)
            self.wait(f"{topic}-{partition} has one replica in sync", lambda: len(self.in_sync(topic, partition)) == 1)
            if self.in_sync(topic, partition) == {old}:
                return old, new
            self.restart(new)

    def _leader_and_follower(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the replicas of a partition with two when both are in sync."""
        found: list[PartitionMetadata] = []

        def are_in_sync() -> bool:
            found[:] = [self.partitions(topic)[partition]]
            return len(found[0].isrs) == 2 and found[0].leader in found[0].isrs

        self.wait(f"both replicas of {topic}-{partition}", are_in_sync)
        (follower,) = set(found[0].isrs) - {found[0].leader}
        return found[0].leader, follower

    def wait(self, condition: str, is_so: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        """Return when the condition holds. Raise BrokerError if a running node ends or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not self._holds(is_so):
            if time.monotonic() > deadline:
                raise BrokerError(f"the cluster did not reach within {timeout_s} s: {condition}")
            time.sleep(0.05)

    def _holds(self, is_so: Callable[[], bool]) -> bool:
        try:
            return is_so()
        except (KafkaException, KeyError):
            return False  # no broker responded, or the metadata does not have the partition yet

    def _is_whole(self, name: str, total: int) -> bool:
        found = self.partitions(name).values()
        return len(found) == total and all(p.leader >= 0 and set(p.isrs) == set(p.replicas) for p in found)

    def _nodes(self) -> list[Node]:
        return [*self.controllers.values(), *self.brokers.values()]

    def _make_nodes(self) -> None:
        addresses = {number: f"127.0.0.1:{self._keep_port()}" for number in self._controller_numbers}
        shown = {number: self._address_for_nodes(number, address) for number, address in addresses.items()}
        voters = ",".join(f"{number}@{address}" for number, address in shown.items())
        common = {**_EVERY_NODE, "controller.quorum.voters": voters}
        for number, address in addresses.items():
            listeners = {
                "listeners": f"CONTROLLER://{address}",
                "advertised.listeners": f"CONTROLLER://{shown[number]}",
            }
            properties = {**common, "process.roles": "controller", **listeners}
            self.controllers[number] = self._node(number, "controller", properties)
        for number in self._numbers:
            link = self._network.link(self._keep_port())
            internal = f"127.0.0.1:{self._keep_port()}"
            for_nodes = self._address_for_nodes(number, internal)
            listeners = {
                "listeners": f"CLIENT://127.0.0.1:{link.target},INTERNAL://{internal}{self._more_listeners}",
                "advertised.listeners": f"CLIENT://{link.address},INTERNAL://{for_nodes}{self._more_listeners}",
            }
            properties = {**common, **_KRAFT_BROKER, **listeners, **self._properties}
            self.links[number], self._internal[number] = link, internal
            self.brokers[number] = self._node(number, "broker", properties)

    def _address_for_nodes(self, number: int, address: str) -> str:
        """Return the address at which other nodes reach the node that listens at ``address``."""
        return address

    def _node(self, number: int, role: str, properties: Mapping[str, str]) -> Node:
        return Node(
            number,
            directory=self.root / f"node-{number}" / "data",
            work=self.root / f"node-{number}" / "work",
            properties=properties,
            heap_mib=HEAP_MIB[role],
            release=self.release,
            program=self._programs.get(number, Program.KAFKA),
        )

    def _format(self) -> None:
        """Format a controller's directory by Kafka's tool. Copies with their own ids are the other directories."""
        added = [argument for user in self._users for argument in ("--add-scram", user)]
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(self.controller.properties_file), *added]
        run_java("kafka.tools.StorageTool", *arguments, release=self.release)
        formatted = (self.controller.directory / "meta.properties").read_text().splitlines()
        for node in self._nodes()[1:]:
            shutil.copytree(self.controller.directory, node.directory)
            directory_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            own = {"node.id": str(node.number), "directory.id": directory_id}
            lines = [line for line in formatted if line.partition("=")[0] not in own]
            lines += [f"{key}={value}" for key, value in own.items()]
            (node.directory / "meta.properties").write_text("\n".join(lines) + "\n")

    def _keep_port(self) -> int:
        self._places.append(keep_port())
        port: int = self._places[-1].getsockname()[1]
        return port
