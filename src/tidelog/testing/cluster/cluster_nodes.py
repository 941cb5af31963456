"""The nodes of a cluster in the test's process: brokers, and the controller that they register with.

They have one event loop. Their connections to each other are real, and go through the links of a ``NodeNetwork``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import Isolation, Record
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.server.broker import Broker as Server
from tidelog.server.controller_node import ControllerNode
from tidelog.server.dispatcher import ControllerDispatcher, Dispatcher
from tidelog.server.forwarding_dispatcher import ForwardingDispatcher
from tidelog.server.metadata.kraft.formatting import FormatRequest, format_directories, metadata_directory_of
from tidelog.storage.fs import LOCAL
from tidelog.testing.broker.faults import Faults
from tidelog.testing.broker.loop_thread import LoopThread
from tidelog.testing.broker.node import InProcessNode
from tidelog.testing.broker.topics import stored_records
from tidelog.testing.cluster.node_network import NodeNetwork

CONTROLLER: Final = 100
"""The node id of the controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSetup:
    """The parts that the nodes of a cluster share."""

    thread: LoopThread
    network: NodeNetwork
    configs: Mapping[str, str]
    """The settings of every node, below its own."""
    controller_address: str


class ClusterController(InProcessNode):
    """The controller, a node of its own. While it does not run, no leader is elected."""

    server: ControllerNode
    node_id: Final = CONTROLLER

    def __init__(self, directory: Path, thread: LoopThread, settings: Mapping[str, str]) -> None:
        """Reserve the port. ``settings`` are those of every node, below ``configs``."""
        super().__init__(directory, {}, thread)
        self._cluster_settings = settings

    def _made(self) -> ControllerNode:
        settings = {
            **self._cluster_settings,
            "process.roles": "controller",
            "node.id": str(CONTROLLER),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{CONTROLLER}@{self.address}",
            "listeners": f"CONTROLLER://{self.address}",
            "log.dirs": str(self.directory),
            **self.configs,
        }
        return ControllerNode(BrokerConfig.load(overrides=settings), self._dispatcher, fs=self._files)

    def _dispatcher(self, node: ControllerNode) -> Dispatcher:
        self._faults = Faults(node)
        return ControllerDispatcher(node, self._faults)


class ClusterBroker(InProcessNode):
    """A broker of the cluster. Its own settings are ``configs``; they apply from its next start on."""

    server: Server

    def __init__(self, node_id: int, directory: Path, setup: NodeSetup) -> None:
        super().__init__(directory, {}, setup.thread)
        self.node_id = node_id
        self._setup = setup

    def format(self, cluster_id: str) -> None:
        """Format the log directories that are not formatted for this broker yet."""
        config = self._config
        request = FormatRequest(
            node_id=self.node_id,
            directories=tuple(map(Path, config.log_dirs)),
            metadata_directory=metadata_directory_of(config),
            controller=None,
            cluster_id=cluster_id,
            is_controller=False,
        )
        format_directories(LOCAL, request, SYSTEM_CLOCK)

    def records(self, topic: str, isolation: Isolation = Isolation.READ_COMMITTED) -> list[Record]:
        """Return the records of this broker's replicas of a topic, partition by partition, also while it is stopped.

        Raise UnknownTopicOrPartitionError if it has no replica of the topic.
        """
        return stored_records(self.directory, topic, isolation)

    @property
    def reaches_controller(self) -> bool:
        """False while this broker is disconnected from the controller."""
        return self._setup.network.reaches(self.node_id, CONTROLLER)

    # --- inside ---

    @property
    def _roles(self) -> Mapping[str, str]:
        return {
            "process.roles": "broker",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{CONTROLLER}@{self._setup.controller_address}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        }

    @property
    def _config(self) -> BrokerConfig:
        settings = {
            **self._roles,
            **self._setup.configs,
            "node.id": str(self.node_id),
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.directory),
            **self.configs,
        }
        return BrokerConfig.load(overrides=settings)

    def _made(self) -> Server:
        server = self._made_server()
        server.route = lambda address: self._setup.network.route(self.node_id, address)
        return server

    def _made_server(self) -> Server:
        return Server(self._config, self._dispatcher, fs=self._files)

    def _dispatcher(self, server: Server) -> Dispatcher:
        self._faults = Faults(server)
        return ForwardingDispatcher(server, self._faults)
