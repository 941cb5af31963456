"""A node as the reports see it: its parts, of which some do not exist during a start or in another role.

Thread rule: the event loop only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidelog.server.cluster_node import ClusterNode
from tidelog.server.live_reports.request_times import RequestTimes

if TYPE_CHECKING:
    from tidelog.server.fetching.session_cache import SessionCache
    from tidelog.server.groups.coordinator import GroupCoordinator
    from tidelog.server.metadata.broker_metadata import BrokerMetadata
    from tidelog.server.quotas.client_quotas import ClientQuotas
    from tidelog.server.replicas.replica_manager import ReplicaManager
    from tidelog.storage.manager.log_manager import LogManager

MOST_ROWS = 500

Report = dict[str, Any]
"""Values for JSON: ``rows``, with ``total`` for the number of things they were chosen from, and other facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The choice of a report's rows. ``name`` is a part of a name, in any case; empty takes all."""

    name: str = ""
    most: int = 200

    def fits(self, *names: str | None) -> bool:
        """Return True if one of the names has the wanted part."""
        if not self.name:
            return True
        wanted = self.name.lower()
        return any(name is not None and wanted in name.lower() for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedNode:
    """``started_ms`` is the wall clock's time at the start of the process."""

    node: ClusterNode
    started_ms: int
    times: RequestTimes = field(default_factory=RequestTimes)

    @property
    def metadata(self) -> BrokerMetadata | None:
        """The cluster metadata, or None before it is loaded."""
        return getattr(self.node, "metadata", None)

    @property
    def quotas(self) -> ClientQuotas | None:
        return getattr(self.node, "quotas", None)

    @property
    def logs(self) -> LogManager | None:
        """The logs of a broker, also while they are loaded. A controller alone has none."""
        return getattr(self.node, "logs", None)

    @property
    def replicas(self) -> ReplicaManager | None:
        return getattr(self.node, "replicas", None)

    @property
    def fetch_sessions(self) -> SessionCache | None:
        return getattr(self.node, "fetch_sessions", None)

    @property
    def groups(self) -> GroupCoordinator | None:
        """The group coordinator, or None before a client has needed it."""
        found: GroupCoordinator | None = vars(self.node).get("groups")
        return found

    @property
    def now_ms(self) -> int:
        return self.node.clock.now_ms()

    @property
    def monotonic_ms(self) -> int:
        return self.node.clock.monotonic_ms()

    def wall_ms(self, monotonic_ms: int) -> int:
        """Return the wall clock's time of a monotonic one."""
        return self.now_ms - (self.monotonic_ms - monotonic_ms)
