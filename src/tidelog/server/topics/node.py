"""The broker's interface for coordinators and internal topics, so that neither side imports the other.

Thread rule: the event loop only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.api_key import ApiKey
from tidelog.runtime.executor import InThread, Spawn
from tidelog.runtime.timers import Timers
from tidelog.server.metadata.broker_metadata import BrokerMetadata
from tidelog.server.replicas.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from tidelog.server.links.broker_links import BrokerLinks


class SendToBroker(Protocol):
    """A function that sends a request to another broker and returns its response, like ``BrokerLinks.send``."""

    def __call__(
        self,
        node_id: int,
        api: ApiKey,
        values: Mapping[str, Any],
        *,
        purpose: str = "",
        at_least: int | None = None,
    ) -> Awaitable[Any]:
        """Raise TidelogError without a response. The error's code tells the cause, such as NETWORK_EXCEPTION."""
        ...


class Node(Protocol):
    @property
    def node_id(self) -> int: ...

    @property
    def config(self) -> BrokerConfig:
        """The current configuration. It changes while the broker runs: read it at each use."""
        ...

    @property
    def timers(self) -> Timers: ...

    @property
    def metadata(self) -> BrokerMetadata: ...

    @property
    def replicas(self) -> ReplicaManager: ...

    @property
    def links(self) -> BrokerLinks:
        """The connections to other brokers, made at first use."""
        ...

    @property
    def in_thread(self) -> InThread: ...

    @property
    def spawn(self) -> Spawn: ...
