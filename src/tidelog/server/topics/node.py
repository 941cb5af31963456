"""The broker's interface for coordinators and internal topics, so that neither side imports the other.

Thread rule: the event loop only.
"""

from __future__ import annotations

from typing import Protocol

from tidelog.config.broker_config import BrokerConfig
from tidelog.runtime.executor import InThread, Spawn
from tidelog.runtime.timers import Timers
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata
from tidelog.server.replicas.replica_manager import ReplicaManager


class Node(Protocol):
    @property
    def config(self) -> BrokerConfig:
        """The current configuration. It changes while the broker runs: read it at each use."""
        ...

    @property
    def timers(self) -> Timers: ...

    @property
    def metadata(self) -> ClusterMetadata: ...

    @property
    def replicas(self) -> ReplicaManager: ...

    @property
    def in_thread(self) -> InThread: ...

    @property
    def spawn(self) -> Spawn: ...
