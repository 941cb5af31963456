"""The cluster of ``tidelog.testing``, whose brokers share the metadata of its controller: no change takes time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

from log_maker import batch
from server.cluster.shared_metadata import SharedMetadata
from server.harness import WireClient
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.server.broker import Broker
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.dispatcher import Dispatcher
from tidelog.server.metadata.image import ConfigResource
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.requests import ElectionType, Outcome, Reassignment
from tidelog.server.replicas.partition import Partition
from tidelog.server.start_settings import EMBEDDED_SETTINGS
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.broker.faults import Faults
from tidelog.testing.broker.killable_files import KillableFiles
from tidelog.testing.cluster import Cluster
from tidelog.testing.cluster.cluster_nodes import ClusterBroker, ClusterController, NodeSetup

Result = TypeVar("Result")
T0 = TopicPartition("t", 0)
FAST = {
    "replica.lag.time.max.ms": "30000",
    "replica.fetch.wait.max.ms": "50",
    "log.retention.ms": "-1",
}
"""Kafka's default lag, because a busy machine delays living followers too, and settings that make changes quick."""


class SharedServer(Broker):
    """A broker whose metadata is that of a controller in this process."""

    cluster_metadata: ClusterMetadata
    shared: SharedMetadata

    def _made_metadata(self, paths: list[Path]) -> Any:
        rack = self.config["broker.rack"]
        text = None if rack is None else str(rack)
        self.shared = SharedMetadata(self.cluster_metadata, self.node_id, text, self._own_registration)
        return self.shared


class SharedNode(ClusterBroker):
    server: SharedServer

    def __init__(self, node_id: int, directory: Path, setup: NodeSetup, controller: ClusterController) -> None:
        super().__init__(node_id, directory, setup)
        self._controller = controller
        self.file_system: Callable[[], KillableFiles] = KillableFiles
        self.clock: Clock = SYSTEM_CLOCK

    @property
    def _roles(self) -> Mapping[str, str]:
        return EMBEDDED_SETTINGS

    def _made_server(self) -> SharedServer:
        self._files = self.file_system()
        server = SharedServer(self._config, self._dispatcher, fs=self._files, clock=self.clock)
        server.cluster_metadata = self._controller.server.quorum_controller
        return server

    def _dispatcher(self, server: Broker) -> Dispatcher:
        self._faults = Faults(server)
        return Dispatcher(server, self._faults)


class SharedCluster(Cluster):
    brokers: Mapping[int, SharedNode]

    def _new_broker(self, node_id: int, directory: Path) -> SharedNode:
        return SharedNode(node_id, directory, self._setup, self.controller)


class LocalCluster:
    """Use it as a context manager; it begins with ``brokers`` running brokers, with ids from 1 on."""

    def __init__(
        self, directory: Path, brokers: int = 3, configs: Mapping[str, str] | None = None, *, log_dirs: int = 1
    ) -> None:
        """Each broker gets ``log_dirs`` log directories."""
        self.directory = directory
        self.log_dirs = log_dirs
        self.own_configs: dict[int, dict[str, str]] = {}
        """Settings of single brokers, from their next start on."""
        self.file_systems: dict[int, Callable[[], KillableFiles]] = {}
        """Make the file systems of single brokers, at their next start."""
        self.clocks: dict[int, Clock] = {}
        """The clocks of single brokers. The others have the machine's."""
        self._cluster = SharedCluster(brokers, directory=directory, configs={**FAST, **(configs or {})})

    def __enter__(self) -> Self:
        for node_id in self._cluster.brokers:
            self._configure(node_id)
        self._cluster.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.close()

    # --- brokers ---

    @property
    def brokers(self) -> dict[int, SharedServer]:
        """The running brokers by node id."""
        return {node_id: node.server for node_id, node in self._cluster.brokers.items() if node.is_running}

    def start(self, node_id: int) -> None:
        self._configure(node_id)
        self._cluster.brokers[node_id].start()

    def stop(self, node_id: int) -> None:
        """Shut a broker down cleanly."""
        self._cluster.brokers[node_id].stop()

    def kill(self, node_id: int) -> None:
        """End a broker like ``kill -9``, and let the controller notice."""
        node = self._cluster.brokers[node_id]
        node.kill()
        self.run(node.server.shared.fence)

    def cut(self, source: int, target: int) -> None:
        """Let a broker no longer reach another one, which still reaches it."""
        self._cluster.disconnect(source, target, one_way=True)

    def isolate(self, node_id: int) -> None:
        """Let a broker reach no other broker. They still reach it."""
        self._cluster.disconnect(node_id, one_way=True)

    def heal(self, node_id: int) -> None:
        """Let a broker reach the others again."""
        self._cluster.heal(node_id)

    def fence(self, node_id: int) -> None:
        """Let the controller take a living broker for dead."""
        self.run(self.brokers[node_id].shared.fence)

    def unfence(self, node_id: int) -> None:
        self.run(self.brokers[node_id].shared.unfence)

    def call(self, function: Callable[[], Result]) -> Result:
        return self._cluster.call(function)

    def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        return self._cluster.run(work)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        self._cluster.wait_for(is_so)

    def paths(self, node_id: int) -> list[Path]:
        """Return the log directories of a broker."""
        root = self.directory / str(node_id)
        return [root] if self.log_dirs == 1 else [root / f"disk{number}" for number in range(1, self.log_dirs + 1)]

    def _configure(self, node_id: int) -> None:
        paths = {"log.dirs": ",".join(map(str, self.paths(node_id)))}
        node = self._cluster.brokers[node_id]
        node.configs = {**paths, **self.own_configs.get(node_id, {})}
        node.file_system = self.file_systems.get(node_id, KillableFiles)
        node.clock = self.clocks.get(node_id, SYSTEM_CLOCK)

    # --- the metadata ---

    @property
    def metadata(self) -> ClusterMetadata:
        return self._cluster.controller.server.quorum_controller

    def create_topic(
        self, name: str, assignments: Sequence[Sequence[int]], configs: Mapping[str, str] | None = None
    ) -> UUID:
        return self._cluster.create_topic(name, assignments=assignments, configs=configs)

    def state(self, partition: TopicPartition = T0) -> PartitionState:
        return self.call(lambda: self.metadata.image.topics[partition.topic].partitions[partition.partition])

    def leader(self, partition: TopicPartition = T0) -> int:
        return self.state(partition).leader

    def elect(self, partition: TopicPartition = T0, *, unclean: bool = False) -> None:
        kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
        self.run(lambda: self.metadata.elect_leaders(kind, [partition]))

    def reassign(self, replicas: Sequence[int], partition: TopicPartition = T0) -> None:
        (outcome,) = self.run(lambda: self.metadata.alter_reassignments([Reassignment(*partition, tuple(replicas))]))
        assert not outcome.is_failure, outcome

    def delete_topic(self, name: str) -> None:
        self._cluster.delete_topic(name)

    def configure(self, kind: ResourceType, name: str, configs: dict[str, str]) -> None:
        """Replace the settings of a topic or a broker."""
        resource = ConfigResource(kind, name)

        async def replaced() -> dict[ConfigResource, Outcome]:
            return await self.metadata.replace_configs({resource: configs})

        (outcome,) = self.run(replaced).values()
        assert not outcome.is_failure, outcome

    # --- partitions ---

    def partition(self, node_id: int, partition: TopicPartition = T0) -> Partition:
        return self.call(lambda: self.brokers[node_id].replicas.partition(partition))

    def log(self, node_id: int, partition: TopicPartition = T0) -> PartitionLog:
        return self.call(lambda: self.brokers[node_id].replicas.partition(partition).log)

    def produce(
        self, *values: bytes, partition: TopicPartition = T0, acks: int = -1, node_id: int | None = None
    ) -> Struct:
        """Produce one batch to the leader and return the partition's response, which has no error."""
        found = self.try_produce(*values, partition=partition, acks=acks, node_id=node_id)
        assert found.error_code == ErrorCode.NONE, found
        return found

    def try_produce(
        self,
        *values: bytes,
        partition: TopicPartition = T0,
        acks: int = -1,
        node_id: int | None = None,
        timeout_ms: int = 30_000,
    ) -> Struct:
        leader = self.leader(partition) if node_id is None else node_id
        with self.client(leader) as client:
            response = client.call(
                ApiKey.PRODUCE,
                9,
                transactional_id=None,
                acks=acks,
                timeout=timeout_ms,
                topic_data=[
                    {
                        "name": partition.topic,
                        "partition_data": [{"index": partition.partition, "records": batch(0, values)}],
                    }
                ],
            )
        (topic,) = response.responses
        found: Struct = topic.partition_responses[0]
        return found

    def wait_until_equal(self, *node_ids: int, partition: TopicPartition = T0) -> None:
        """Wait until the logs of brokers have the leader's end and high watermark."""

        def is_equal() -> bool:
            logs = [self.brokers[node_id].replicas.partition(partition).log for node_id in node_ids]
            return len({(log.end_offset, log.high_watermark) for log in logs}) == 1

        self.wait_for(is_equal)

    def wait_for_isr(self, *node_ids: int, partition: TopicPartition = T0) -> None:
        topics = self.metadata.image.topics
        self.wait_for(lambda: set(topics[partition.topic].partitions[partition.partition].isr) == set(node_ids))

    def segment_bytes(self, node_id: int, partition: TopicPartition = T0) -> bytes:
        """Return the bytes of all batches of a replica."""
        log = self.log(node_id, partition)
        return b"".join(data for data, _ in log.read_through(log.log_start_offset, log.end_offset, 1 << 20))

    def client(self, node_id: int) -> WireClient:
        return WireClient(self.brokers[node_id].listeners[0].port)
