"""What a coordinator needs of the broker that it is part of: a protocol, so that neither has to know the other.

Called by: the coordinators, the topics that are made for clients. Thread rule: the loop's.
"""

from __future__ import annotations

from typing import Protocol

from tidelog.config.broker_config import BrokerConfig
from tidelog.server.metadata.cluster_metadata import ClusterMetadata
from tidelog.server.replicas.replica_manager import ReplicaManager
from tidelog.server.timers import Timers
from tidelog.server.work import InThread, Spawn


class Node(Protocol):
    @property
    def config(self) -> BrokerConfig:
        """As it is now: some of it changes while the broker runs."""
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
