"""Several brokers and a controller in the test's own process, which real clients reach at ``bootstrap_servers``.

The nodes run on one event loop in a background thread. Each has a port of its own, for all of its starts, and they talk
to each other over real connections. The data is in a temporary directory unless one is given. Settings are quick: see
``Cluster.base_configs``.

==================================  ==================================================================================
fault                               call
==================================  ==================================================================================
a broker or the controller ends     ``stop``, ``kill`` and ``start`` of ``brokers[1]`` or ``controller``
requests fail, are late, or lose    ``fail_next``, ``delay_next``, ``lose_response`` of the same
their response
two nodes lose their connection     ``disconnect``, ``heal``
bytes between two nodes are late    ``delay``, ``heal``
==================================  ==================================================================================

Thread rule: any one thread except the loop's. ``call`` and ``run`` reach the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Final, Self, TypeVar
from uuid import UUID

from tidelog.model import Isolation, Record
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.requests import NewTopic
from tidelog.testing.broker.in_process import QUICK_CONFIGS
from tidelog.testing.broker.loop_thread import LoopThread
from tidelog.testing.broker.topics import accepted, stored_records
from tidelog.testing.cluster.cluster_nodes import CONTROLLER, ClusterBroker, ClusterController, NodeSetup
from tidelog.testing.cluster.node_network import NodeNetwork

_MOST_REPLICAS: Final = 3
"""The replication factor of topics in a cluster of at least as many brokers."""

Result = TypeVar("Result")


class Cluster:
    """A cluster that serves within a ``with`` block, or from ``start`` to ``close``."""

    base_configs: ClassVar[Mapping[str, str]] = {
        **QUICK_CONFIGS,
        "broker.heartbeat.interval.ms": "200",
        "broker.session.timeout.ms": "1000",
        "replica.lag.time.max.ms": "2000",
        "replica.fetch.wait.max.ms": "100",
        "replica.fetch.backoff.ms": "50",
        "controller.quorum.retry.backoff.ms": "20",
        "leader.imbalance.check.interval.seconds": "3600",
        "group.initial.rebalance.delay.ms": "0",
        "num.io.threads": "2",
        "background.threads": "2",
    }
    """The settings below ``configs``. A dead broker is noticed after a second, and a lagging replica after two. Leaders
    do not move back by themselves."""

    def __init__(
        self, brokers: int = 3, *, directory: Path | None = None, configs: Mapping[str, str] | None = None
    ) -> None:
        """``configs`` are settings of all nodes by Kafka's keys. ``brokers`` have the ids from 1 on, and the controller
        has the id ``CONTROLLER``."""
        self._temporary: TemporaryDirectory[str] | None = None
        if directory is None:
            self._temporary = TemporaryDirectory(prefix="tidelog-")
            directory = Path(self._temporary.name)
        self.directory = directory
        self.configs = {**self.base_configs, **_replication_of(brokers), **(configs or {})}
        self._thread = LoopThread()
        self._network = NodeNetwork(self._thread)
        self.controller = ClusterController(directory / str(CONTROLLER), self._thread, self.configs)
        self._setup = NodeSetup(
            thread=self._thread,
            network=self._network,
            configs=self.configs,
            controller_address=self.controller.address,
        )
        self.brokers: Mapping[int, ClusterBroker] = {
            number: self._new_broker(number, directory / str(number)) for number in range(1, brokers + 1)
        }
        """The brokers by node id, running or not."""
        ports = {number: broker.own_port for number, broker in self.brokers.items()}
        ports[CONTROLLER] = self.controller.own_port
        for source in self.brokers:
            for target, port in ports.items():
                if target != source:
                    self._network.connect(source, target, port)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers for clients, the same after every start."""
        return ",".join(broker.address for broker in self.brokers.values())

    def start(self) -> None:
        """Start all nodes that do not run. Return when clients are served.

        Raise ConfigError, or an error from loading the data.
        """
        if not self.controller.is_running:
            self.controller.start()
        cluster_id = self.call(lambda: self._image.cluster_id)
        starting = [broker for broker in self.brokers.values() if not broker.is_running]
        for broker in starting:
            broker.format(cluster_id)
        self._run_all([broker.begin for broker in starting])

    def close(self) -> None:
        """End the faults between nodes, stop all nodes cleanly, and remove a temporary directory.

        If the controller does not run, there is no clean shutdown, and the brokers are killed.
        """
        try:
            self.heal()
            running = [broker for broker in self.brokers.values() if broker.is_running]
            if self.controller.is_running:
                self._run_all([broker.end for broker in running])
                self.controller.stop()
            for broker in running:
                broker.kill()
        finally:
            for node in (*self.brokers.values(), self.controller):
                node.release()
            self._network.close()
            self._thread.stop()
            if self._temporary is not None:
                self._temporary.cleanup()

    # --- topics ---

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        assignments: Sequence[Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> UUID:
        """Create a topic for immediate use and return its id. Raise ApiError if it is refused.

        The replication factor is that of ``default.replication.factor``: 3, or the number of brokers. ``assignments``
        are the replicas of each partition in place of the numbers, with the preferred leader first.
        """
        placed = None if assignments is None else list(enumerate(assignments))
        new = NewTopic(
            name=name,
            partitions=-1 if placed else partitions,
            replication_factor=replication_factor or -1,
            assignments=placed or (),
            configs=configs or {},
        )
        (result,) = self.run(lambda: self.controller.server.controller.create_topics([new]))
        topic_id = accepted(result).topic_id
        assert topic_id is not None, "what was made has an id"
        self._wait_until_known()
        return topic_id

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raise ApiError if there is none."""
        (result,) = self.run(lambda: self.controller.server.controller.delete_topics([name]))
        accepted(result)
        self._wait_until_known()

    def records(self, topic: str, isolation: Isolation = Isolation.READ_COMMITTED) -> list[Record]:
        """Return the records of a topic, partition by partition, from the replicas of the leaders.

        A replica is read up to its log end: the last records may have no other copy yet. ``records`` of one of
        ``brokers`` reads the replicas of that broker. Raise ApiError if there is no topic of that name, or if one of
        its partitions has no leader.
        """
        leaders = {number: state.leader for number, state in self._partitions(topic).items()}
        if missing := [number for number, leader in leaders.items() if leader not in self.brokers]:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"partitions {missing} of {topic} have no leader")
        return [
            record
            for number, leader in sorted(leaders.items())
            for record in stored_records(self.brokers[leader].directory, topic, isolation, [number])
        ]

    # --- leaders and replicas, as the controller knows them ---

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the node id of a partition's leader, or -1 if there is none. The leader may have died meanwhile.

        Raise ApiError if the partition does not exist.
        """
        return self._state(topic, partition).leader

    def in_sync_replicas(self, topic: str, partition: int = 0) -> list[int]:
        """Return the node ids of a partition's in-sync replicas. Raise ApiError if the partition does not exist."""
        return sorted(self._state(topic, partition).isr)

    def wait_for_leader(self, topic: str, partition: int = 0) -> int:
        """Wait until a running broker leads a partition, and return its node id.

        Raise ApiError if the partition does not exist, and TimeoutError after a minute.
        """
        self._state(topic, partition)
        self.wait_for(lambda: self._leads(self._image.topics[topic].partitions[partition]))
        return self.leader(topic, partition)

    def wait_until_in_sync(self, *topics: str) -> None:
        """Wait until all replicas of the topics, or of all topics, are in sync, with running leaders.

        Raise TimeoutError after a minute.
        """

        def are_in_sync() -> bool:
            return all(
                self._leads(state) and set(state.isr) == set(state.replicas)
                for topic, _number, state in self._image.partitions()
                if not topics or topic.name in topics
            )

        self.wait_for(are_in_sync)

    # --- faults between nodes ---

    def disconnect(self, one: int, *others: int, one_way: bool = False, silent: bool = False) -> None:
        """Disconnect a node from other nodes, or from all others if none is named, until ``heal``.

        Connections are reset, and new ones refused. With ``silent`` they stay open, and no byte passes: nodes notice
        that by their timeouts. With ``one_way`` the fault affects only the connections that the node opens, so the
        others still reach it. Brokers open connections to each other and to the controller; the controller opens none.
        """
        self._network.disconnect(one, self._others(one, others), is_one_way=one_way, is_silent=silent)

    def delay(self, one: int, *others: int, ms: int) -> None:
        """Deliver every byte between a node and others ``ms`` later, each way, until ``heal``."""
        self._network.delay(one, self._others(one, others), ms)

    def heal(self, one: int | None = None, *others: int) -> None:
        """End the faults between a node and others, or all of them if no node is named."""
        for node_id in self.brokers if one is None else (one,):
            self._network.heal(node_id, self._others(node_id, others))

    # --- its loop ---

    def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """See ``LoopThread.run``."""
        return self._thread.run(work)

    def call(self, function: Callable[[], Result]) -> Result:
        """See ``LoopThread.call``."""
        return self._thread.call(function)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """See ``LoopThread.wait_for``."""
        self._thread.wait_for(is_so)

    # --- inside ---

    def _new_broker(self, node_id: int, directory: Path) -> ClusterBroker:
        return ClusterBroker(node_id, directory, self._setup)

    def _run_all(self, works: Sequence[Callable[[], Awaitable[None]]]) -> None:
        async def run_all() -> None:
            await asyncio.gather(*(work() for work in works))

        self.run(run_all)

    @property
    def _image(self) -> MetadataImage:
        """The controller's metadata; the loop's."""
        return self.controller.server.metadata.image

    def _others(self, one: int, others: Sequence[int]) -> Sequence[int]:
        nodes = (*self.brokers, CONTROLLER)
        if unknown := [node_id for node_id in (one, *others) if node_id not in nodes]:
            raise ValueError(f"{unknown} are no nodes of this cluster, which has {list(nodes)}")
        return others or [node_id for node_id in nodes if node_id != one]

    def _partitions(self, topic: str) -> dict[int, PartitionState]:
        def found() -> dict[int, PartitionState] | None:
            known = self._image.topics.get(topic)
            return None if known is None else dict(known.partitions)

        partitions = self.call(found)
        if partitions is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
        return partitions

    def _state(self, topic: str, partition: int) -> PartitionState:
        state = self._partitions(topic).get(partition)
        if state is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{partition}")
        return state

    def _leads(self, state: PartitionState) -> bool:
        return state.leader in self.brokers and self.brokers[state.leader].is_running

    def _wait_until_known(self) -> None:
        """Wait until every running broker that reaches the controller has its metadata."""
        end = self.call(lambda: self.controller.server.metadata.applied_offset)
        reaching = [broker for broker in self.brokers.values() if broker.is_running and broker.reaches_controller]
        self.wait_for(lambda: all(broker.server.metadata.applied_offset >= end for broker in reaching))


def _replication_of(brokers: int) -> Mapping[str, str]:
    factor = min(_MOST_REPLICAS, brokers)
    return {
        "default.replication.factor": str(factor),
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": str(min(2, factor)),
        "share.coordinator.state.topic.replication.factor": str(factor),
        "share.coordinator.state.topic.min.isr": "1",
    }
