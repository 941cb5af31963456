"""The broker: it creates its parts, starts them in the order below and stops them in reverse.

=========  ========================================================  ==================================================
step       what happens                                              if it fails
=========  ========================================================  ==================================================
listeners  their ports are bound; clients queue up                   ``start`` raises, and everything is stopped again
metrics    reporters start before the logs are loaded                the same
logs       in a background thread: new log directories are           the same
           formatted, all are locked, the metadata and then the
           logs are loaded
settings   the logs get this broker's settings from the metadata;    the same
           quotas and ACLs are read
metadata   a new metadata epoch begins, with this process as         the same
           leader, or the metadata of others is followed
replicas   the replicas that the metadata assigns here are served    the same
coord.     coordinators of existing internal topics start            the same
joining    the broker is registered; partitions get leaders          the same
accepting  the state is RUNNING, and connections are accepted
=========  ========================================================  ==================================================

``ClusterNode`` has the parts that a controller has too. The event loop's thread owns everything except the logs, and
the parts have no locks. After a crash, the next start recovers the logs and the metadata log. Thread rule: the event
loop only, except for the constructor.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.replication.broker_state import BrokerState
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.runtime import SYSTEM_CLOCK, Clock, Scheduler
from tidelog.runtime.timers import Timers
from tidelog.server.cluster_node import ClusterNode
from tidelog.server.dynamic_settings import DynamicSettings, cordoned_ids
from tidelog.server.fetching.replica_selector import selects_by_rack
from tidelog.server.fetching.session_cache import SessionCache, session_samples
from tidelog.server.links.node_links import Route, direct
from tidelog.server.metadata.broker_metadata import BrokerMetadata, OwnRegistration
from tidelog.server.network.connection import Service
from tidelog.server.network.endpoint import inter_broker_listener
from tidelog.server.replicas.replica_manager import ReplicaManager, ReplicaManagerSetup, is_stray
from tidelog.server.replicas.replica_metrics import replica_samples
from tidelog.server.replicas.replication_quota import broker_rate
from tidelog.server.replicas.replication_settings import ReplicationSettings
from tidelog.server.security.scram_exchange import NO_CREDENTIALS
from tidelog.server.topics.automatic_topics import AutomaticTopics
from tidelog.server.topics.kept_topics import KeptTopics
from tidelog.storage.fs import LOCAL, FileSystem
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.directory.log_directory import LogDirectory
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.manager_settings import ManagerSettings

if TYPE_CHECKING:
    from tidelog.client.connection.client_settings import ClientSettings
    from tidelog.server.groups.coordinator import GroupCoordinator
    from tidelog.server.links.broker_links import BrokerLinks
    from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings
    from tidelog.server.transactions.coordinator import TransactionCoordinator

_MECHANISM = "sasl.mechanism.inter.broker.protocol"
_MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

_log = logging.getLogger(__name__)


class Broker(ClusterNode):
    """A node with the broker role. It may have the controller role, too."""

    logs: LogManager
    replicas: ReplicaManager
    fetch_sessions: SessionCache

    def __init__(
        self,
        config: BrokerConfig,
        service: Callable[[Broker], Service],
        *,
        controller_service: Callable[[Broker], Service] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        scheduler: Scheduler | None = None,
        timers: Timers | None = None,
        fs: FileSystem = LOCAL,
        node_id: int | None = None,
    ) -> None:
        """Create the parts, but open nothing. Raise ConfigError with every mistake.

        ``service`` makes the handler of requests, which is the dispatcher. ``controller_service`` makes that of the
        controller's listener, which stays closed without one. ``node_id`` is the id of a broker whose config has none.
        """
        super().__init__(config, clock=clock, scheduler=scheduler, timers=timers, fs=fs, node_id=node_id)
        self.service = service(self)
        if controller_service is not None:
            self.controller_service = controller_service(self)
        self.automatic_topics = AutomaticTopics(self)
        self.kept_topics = KeptTopics()
        self.route: Route = direct
        """The way to the other nodes. Tests may replace it before the start."""
        self.selects_by_rack = selects_by_rack(config)
        """True if consumers are sent to replicas in their racks (KIP-392)."""
        self._has_joined = asyncio.Event()

    # --- created at first use, because importing the modules takes a sixth of the start time ---

    @cached_property
    def groups(self) -> GroupCoordinator:
        from tidelog.server.groups.coordinator import GroupCoordinator

        coordinator = GroupCoordinator(self)
        coordinator.start()
        self._started.callback(self.metrics.add_source(coordinator.samples))
        self._started.callback(coordinator.stop)
        return coordinator

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        from tidelog.server.transactions.assembly import assemble_coordinator

        coordinator = assemble_coordinator(
            self,
            lambda number: self.groups.before_marker(number),
            lambda *marker: self.groups.transaction_completed(*marker),
        )
        coordinator.start()
        self._started.callback(self.metrics.add_source(coordinator.samples))
        self._started.callback(coordinator.stop)
        self.replicas.add_leader_listener(TRANSACTION_STATE_TOPIC, coordinator.elected, coordinator.resigned)
        return coordinator

    @cached_property
    def links(self) -> BrokerLinks:
        """The connections to the other brokers. Raise ConfigError if their security is not valid."""
        from tidelog.client.model.address import Address
        from tidelog.server.links.broker_links import BrokerLinks

        listener = inter_broker_listener(self.config)

        def address_of(node_id: int) -> Address | None:
            broker = self.metadata.image.brokers.get(node_id)
            endpoint = None if broker is None else broker.listeners.get(listener)
            return None if endpoint is None else Address(endpoint.host, endpoint.port)

        links = BrokerLinks(address_of, self._link_settings(), self.route)
        self._started.callback(links.close)
        return links

    def _link_settings(self) -> ClientSettings:
        """Return the settings for the other brokers. The config may lack the id that ZooKeeper has generated."""
        from tidelog.server.links.link_settings import broker_link_settings

        return replace(broker_link_settings(self.config), client_id=f"broker-{self.node_id}")

    def secure_links(self) -> None:
        """Use the current security for new connections to other nodes. Raise ConfigError if it is not valid."""
        if "links" in vars(self):  # they were needed, so they are made
            self.links.change(self._link_settings())
        if self.controllers is not None:
            from tidelog.server.links.link_settings import controller_link_settings

            self.controllers.change(controller_link_settings(self.config))

    # --- steps of the start ---

    async def _start_parts(self) -> None:
        if self.accepts_brokers:
            self._check_links()
        await self._start_logs()
        self.state = BrokerState.RECOVERY
        await self._follow_settings()
        self._follow_quotas()
        self._follow_acls()
        await self._start_metadata()
        await self._start_replicas()
        self._start_coordinators()
        await self._join()

    def _check_links(self) -> None:
        """Find mistakes in the security between brokers before another broker joins.

        A single broker does not need these settings, unlike in Kafka, so missing ones are only reported. Raise
        ConfigError for wrong ones.
        """
        security = self.security.get(inter_broker_listener(self.config))
        if security is None or (security.tls is None and security.sasl is None):
            return
        try:
            _ = self.links
        except ConfigError as error:
            if _MECHANISM in self.config.settings:
                raise
            _log.warning("Other brokers may join, but this broker could not follow them: %s", error.message)

    @property
    def data_directories(self) -> Sequence[Path]:
        return [directory.path for directory in self.logs.online]

    @property
    def _secret(self) -> bytes:
        """The secret of fake SCRAM credentials: the id of a log directory, which survives restarts. Clients that can
        read it by DescribeQuorum may also list users."""
        ids = [directory.id for directory in self.logs.online if directory.id is not None]
        return ids[0].bytes if ids else NO_CREDENTIALS.secret

    async def _start_logs(self) -> None:
        paths = [Path(path) for path in self.config.log_dirs]
        self.metadata = metadata = self._metadata_of_roles(paths)
        self.logs = LogManager(
            self.fs,
            paths,
            settings=replace(ManagerSettings.of(self.config), is_sole_replica=False),
            default_config=LogConfig.of(self.config),
            topic_settings=metadata.committed_settings,
            clock=self.clock,
            scheduler=self.scheduler,
            is_stray=lambda log: is_stray(
                metadata.image, self.node_id, log, is_with_zookeeper=self.zookeeper is not None
            ),
            on_locked=metadata.load,
            on_flush=self.reporting.on_flush,
            on_offline=self._directory_failed,
            on_all_failed=lambda: self._fail("every log directory has failed"),
            on_caught_up=self._move_caught_up,
            move_rate=lambda: broker_rate(metadata.image.settings_of, self.node_id, _MOVE_RATE),
        )
        self.server_metrics.watch(self, self.scheduler if self.reporting.reporters.reporters else None)
        self._started.callback(self.server_metrics.close)
        self._started.callback(self.reporting.stop)
        self.reporting.start(self.logs, self.scheduler)
        self._started.push_async_callback(metadata.close)  # if the logs cannot be loaded
        await self.in_thread(metadata.format)
        await self.in_thread(self.logs.startup)
        self._started.push_async_callback(self._stop_logs)
        self._started.push_async_callback(metadata.close)  # before its directory is unlocked

    def _metadata_of_roles(self, paths: list[Path]) -> BrokerMetadata:
        if self.has_controller:
            return self._made_metadata(paths)
        if self.zookeeper is not None:
            return self._zookeeper_metadata(paths, self.zookeeper)
        return self._observed_metadata(paths)

    def _zookeeper_metadata(self, paths: list[Path], zookeeper: ZooKeeperSettings) -> BrokerMetadata:
        from tidelog.server.metadata.zookeeper_cluster.zookeeper_metadata import (
            ZooKeeperMetadata,
            ZooKeeperMetadataSetup,
        )

        metadata = ZooKeeperMetadata(
            ZooKeeperMetadataSetup(
                fs=self.fs,
                config=self.config,
                node_id=self.node_id,
                directories=paths,
                clock=self.clock,
                timers=self.timers,
                on_failure=self._fail,
                zookeeper=zookeeper,
            )
        )
        self.controller = metadata
        self._started.callback(self.metrics.add_source(metadata.samples))
        _ = self.links  # a mistake in their security is found before anything starts
        return metadata

    def _observed_metadata(self, paths: list[Path]) -> BrokerMetadata:
        from tidelog.server.metadata.observer.observed_metadata import ObservedMetadata, ObservedMetadataSetup

        observed = ObservedMetadata(
            ObservedMetadataSetup(
                fs=self.fs,
                config=self.config,
                node_id=self.node_id,
                directories=paths,
                clock=self.clock,
                scheduler=self.scheduler,
                own=self._own_registration,
                on_failure=self._fail,
                route=self.route,
            )
        )
        self.controllers = observed.channel
        _ = self.links  # a mistake in their security is found before anything starts
        return observed

    async def _start_metadata(self) -> None:
        if self.has_controller:
            await super()._start_metadata()
            return
        await self.metadata.start()
        if self.zookeeper is not None:
            self._report_metadata()

    async def _follow_settings(self) -> None:
        """Apply the dynamic settings. From here on ``config`` includes the cluster metadata's settings."""
        settings = DynamicSettings(self)
        self._started.callback(self.metadata.subscribe(settings.on_change))
        await settings.apply()

    async def _stop_logs(self) -> None:
        await self.in_thread(self.logs.shutdown, self.metadata.broker_epoch)

    async def _start_replicas(self) -> None:
        self.fetch_sessions = SessionCache(self.config.number("max.incremental.fetch.session.cache.slots"))
        replicas = ReplicaManager(
            ReplicaManagerSetup(
                node_id=self.node_id,
                logs=self.logs,
                metadata=self.metadata,
                timers=self.timers,
                in_thread=self.in_thread,
                spawn=self.spawn,
                links=lambda: self.links,
                settings=ReplicationSettings.of(self.config),
                fetchers=lambda: self.config.number("num.replica.fetchers"),
                metrics=self.metrics,
            )
        )
        self._started.push_async_callback(replicas.stop)
        self._started.callback(self.metadata.subscribe(replicas.follow, replicas.prepare))
        await replicas.start()
        self.replicas = replicas
        self._started.callback(self.metrics.add_source(lambda: replica_samples(replicas)))
        self._started.callback(self.metrics.add_source(lambda: session_samples(self.fetch_sessions)))

    def _start_coordinators(self) -> None:
        """Start the coordinators whose internal topics exist. The others start when their topics are created."""

        def start(topics: Collection[str]) -> None:
            if GROUP_METADATA_TOPIC in topics:
                _ = self.groups
            if TRANSACTION_STATE_TOPIC in topics:
                _ = self.transactions

        start(self.metadata.image.topics)
        self._started.callback(
            self.metadata.subscribe(lambda change: start({topic.name for topic in change.created_topics}))
        )

    def _directory_failed(self, directory: LogDirectory) -> None:
        """Report a failed log directory to the replicas; any thread. Before RUNNING it is ignored, because ``_join``
        registers only online directories."""

        def told() -> None:
            if self.state is BrokerState.RUNNING:
                self.replicas.directory_failed(directory.id)

        self.loop.call_soon_threadsafe(told)

    def _move_caught_up(self, partition: TopicPartition, path: Path, end: Callable[[], None]) -> None:
        """Report the new log directory of a replica; any thread. A move that an earlier run began waits for the
        registration."""

        async def reported() -> None:
            await self._has_joined.wait()
            directory_id = next((one.id for one in self.logs.online if one.path == path), None)
            if directory_id is not None:
                self.replicas.move_caught_up(partition, directory_id, end)

        self.loop.call_soon_threadsafe(lambda: self.spawn(reported()))

    async def _join(self) -> None:
        """Register the broker with the cluster, so that partitions get leaders."""
        await self.metadata.join(self._own_registration())
        self._has_joined.set()
        self._started.push_async_callback(self.metadata.leave)

    def _own_registration(self) -> OwnRegistration:
        """Return this broker's registration. The listeners are open, and the log directories are locked."""
        return OwnRegistration(
            endpoints=[BrokerEndpoint(one.name, one.host, one.port, one.protocol) for one in self.advertised],
            directories=[directory.id for directory in self.logs.online if directory.id is not None],
            cordoned=cordoned_ids(self.logs),
            previous_epoch=self.logs.previous_broker_epoch(),
        )
