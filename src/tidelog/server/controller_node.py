"""A controller as a node of its own: the cluster metadata, without logs of topics, replicas and coordinators.

=========  ========================================================  ================================================
step       what happens                                              if it fails
=========  ========================================================  ================================================
listeners  the ports of ``controller.listener.names`` are bound      ``start`` raises, and everything is stopped again
metadata   in a background thread: the metadata directory is         the same
           formatted if it is new, locked, and its log is loaded
quotas     quotas and ACLs of the metadata are read                  the same
leading    a new metadata epoch begins, with this node as leader     the same
accepting  brokers register; each unfenced one has a full session
=========  ========================================================  ================================================

After a crash, the next start recovers the metadata log. Brokers keep serving while the controller is away: they only
cannot change the metadata. Thread rule: the event loop only, except for the constructor. Source: Kafka's
``ControllerServer``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.config.broker_config import BrokerConfig
from tidelog.runtime import SYSTEM_CLOCK, Clock, Scheduler
from tidelog.runtime.timers import Timers
from tidelog.server.cluster_node import ClusterNode
from tidelog.server.network.connection import Service
from tidelog.storage.fs import LOCAL, FileSystem


class ControllerNode(ClusterNode):
    """A node with the controller role alone."""

    def __init__(
        self,
        config: BrokerConfig,
        service: Callable[[ControllerNode], Service],
        *,
        clock: Clock = SYSTEM_CLOCK,
        scheduler: Scheduler | None = None,
        timers: Timers | None = None,
        fs: FileSystem = LOCAL,
    ) -> None:
        """Create the parts, but open nothing. Raise ConfigError with every mistake.

        ``service`` makes the handler of requests, which is the controller's dispatcher.
        """
        super().__init__(config, clock=clock, scheduler=scheduler, timers=timers, fs=fs)
        self.controller_service = service(self)

    async def _start_parts(self) -> None:
        self.metadata = metadata = self._made_metadata([])
        self.server_metrics.watch(self, self.scheduler if self.reporting.reporters.reporters else None)
        self._started.callback(self.server_metrics.close)
        self._started.callback(self.reporting.stop)
        self.reporting.start(None, self.scheduler)
        self._started.push_async_callback(metadata.close)
        await self.in_thread(metadata.format)
        await self.in_thread(metadata.load)
        self._follow_quotas()
        self._follow_acls()
        await self._start_metadata()
