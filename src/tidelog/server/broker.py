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
metadata   a new metadata epoch begins, with this process as leader  the same
replicas   the replicas that the metadata assigns here are served    the same
coord.     coordinators of existing internal topics start            the same
joining    the broker is registered; partitions get leaders          the same
accepting  the state is RUNNING, and connections are accepted
=========  ========================================================  ==================================================

The event loop's thread owns everything except the logs. The parts have no locks, and slow work goes through
``in_thread``. Other threads notify the loop by ``loop.call_soon_threadsafe``. After a crash, the next start recovers
the logs and the metadata log. Thread rule: the event loop only, except for the constructor.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tidelog.config.broker_config import BrokerConfig
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.replication.broker_state import BrokerState
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.runtime import SYSTEM_CLOCK, Clock, Scheduler, ThreadScheduler
from tidelog.runtime.timers import LoopTimers, Timers
from tidelog.server.authorization.authorizer import Authorizer
from tidelog.server.dynamic_settings import DynamicSettings, cordoned_ids
from tidelog.server.fetching.session_cache import SessionCache, session_samples
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata, ClusterMetadataSetup
from tidelog.server.metadata.kraft.metadata_metrics import MetadataMetrics
from tidelog.server.metadata.kraft.scram_users import ScramUsers
from tidelog.server.network.connection import Service
from tidelog.server.network.endpoint import ListenerEndpoint
from tidelog.server.network.limits import ConnectionCounts
from tidelog.server.network.listener import Listener
from tidelog.server.quotas.address_quotas import address_quotas
from tidelog.server.quotas.client_quotas import ClientQuotas
from tidelog.server.quotas.quota_metrics import quota_samples
from tidelog.server.replicas.replica_manager import ReplicaManager, is_stray
from tidelog.server.replicas.replica_metrics import replica_samples
from tidelog.server.security.scram_exchange import NO_CREDENTIALS
from tidelog.server.server_metrics import ServerMetrics
from tidelog.server.start_settings import StartSettings
from tidelog.server.topics.automatic_topics import AutomaticTopics
from tidelog.storage.fs import LOCAL, FileSystem
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.directory.log_directory import LogDirectory
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.manager_settings import ManagerSettings
from tidelog.storage.manager.metrics.manager_metrics import MetricsReporting

if TYPE_CHECKING:
    from tidelog.server.groups.coordinator import GroupCoordinator
    from tidelog.server.transactions.coordinator import TransactionCoordinator

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class Broker:
    """A broker in a state of ``BrokerState``. Call ``start`` once, then ``stop``; a restart is impossible."""

    loop: asyncio.AbstractEventLoop
    timers: Timers
    logs: LogManager
    metadata: ClusterMetadata
    quotas: ClientQuotas
    replicas: ReplicaManager
    fetch_sessions: SessionCache

    def __init__(
        self,
        config: BrokerConfig,
        service: Callable[[Broker], Service],
        *,
        clock: Clock = SYSTEM_CLOCK,
        scheduler: Scheduler | None = None,
        timers: Timers | None = None,
        fs: FileSystem = LOCAL,
    ) -> None:
        """Create the parts, but open nothing. Raise ConfigError with every mistake.

        ``service`` makes the handler of requests, which is the dispatcher. Timers default to real time.
        """
        settings = StartSettings.of(config)
        self.config = config
        self.node_id = settings.node_id
        self.clock = clock
        self.fs = fs
        self.state = BrokerState.NOT_RUNNING
        self.endpoints = settings.endpoints
        self.limits = settings.limits
        self.security = settings.security
        self.authorizer = Authorizer(settings.authorizer)
        self.connection_counts = ConnectionCounts(self.limits)
        self.listeners: list[Listener] = []
        self.reporting = MetricsReporting(config, clock)
        self.metrics = self.reporting.registry
        self.server_metrics = ServerMetrics(self.metrics)
        self.scheduler = scheduler or ThreadScheduler(config.number("background.threads"), clock=clock)
        self.pool = ThreadPoolExecutor(config.number("num.io.threads"), thread_name_prefix="tidelog-io")
        self.service = service(self)
        self.automatic_topics = AutomaticTopics(self)
        self.on_failure: Callable[[str], None] = lambda _reason: None
        """A callback on the event loop for a fatal failure. The owner of the broker then stops it."""
        self._given_timers = timers
        self._tasks: set[asyncio.Task[Any]] = set()
        self._started = AsyncExitStack()

    # --- start and end ---

    async def start(self) -> None:
        """Return when clients can be served. On an error, stop all parts again. Raise ConfigError, or an error of
        ``LogManager.startup``."""
        self.loop = asyncio.get_running_loop()
        self.timers = self._given_timers or LoopTimers(self.loop, self.clock)
        self.state = BrokerState.STARTING
        try:
            self._open_listeners()
            self.scheduler.startup()
            self._started.callback(self.scheduler.shutdown)
            await self._start_logs()
            self.state = BrokerState.RECOVERY
            await self._follow_settings()
            self._follow_quotas()
            self._follow_acls()
            await self.metadata.start()
            metadata_metrics = MetadataMetrics(self.metadata, self.node_id)
            metadata_metrics.watch(self.metrics)
            self._started.callback(metadata_metrics.close)
            await self._start_replicas()
            self._start_coordinators()
            await self._join()
        except BaseException:
            await self.stop()
            raise
        for listener in self.listeners:
            listener.start()
        self.state = BrokerState.RUNNING

    async def stop(self) -> None:
        """Stop the started parts in reverse; idempotent."""
        if self.state is BrokerState.NOT_RUNNING:
            return
        if self.state is BrokerState.RUNNING:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        for listener in self.listeners:
            listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.state = BrokerState.SHUTTING_DOWN
        await self._started.aclose()
        self.pool.shutdown()
        self.state = BrokerState.NOT_RUNNING

    @property
    def advertised(self) -> tuple[ListenerEndpoint, ...]:
        """The endpoints that clients use to find this broker. They are known once it has started."""
        return self.endpoints.advertised_at({listener.endpoint.name: listener.port for listener in self.listeners})

    # --- coordinators: created at first use, because importing their modules takes a sixth of the start time ---

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

    # --- services for the parts ---

    def in_thread(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> asyncio.Future[Result]:
        """Run slow work in a background thread of the pool, and return its future result."""
        return self.loop.run_in_executor(self.pool, lambda: function(*args, **kwargs))

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run ``work`` on the loop until it ends or the broker stops. An error is logged."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("A task of the broker failed", exc_info=error)

    def _fail(self, reason: str) -> None:
        """Report a fatal failure. Thread rule: any thread."""
        self.loop.call_soon_threadsafe(lambda: self.on_failure(reason))

    # --- steps of the start ---

    def _open_listeners(self) -> None:
        for endpoint in self.endpoints.listeners:
            listener = Listener(
                endpoint,
                loop=self.loop,
                timers=self.timers,
                service=self.service,
                limits=self.limits,
                counts=self.connection_counts,
                security=self.security[endpoint.name],
                credentials_of=lambda mechanism: ScramUsers(self.metadata, mechanism, self._secret),
            )
            listener.open()
            self.listeners.append(listener)

    @property
    def _secret(self) -> bytes:
        """The secret of fake SCRAM credentials: the id of a log directory, which survives restarts. Clients that can
        read it by DescribeQuorum may also list users."""
        ids = [directory.id for directory in self.logs.online if directory.id is not None]
        return ids[0].bytes if ids else NO_CREDENTIALS.secret

    async def _start_logs(self) -> None:
        paths = [Path(path) for path in self.config.log_dirs]
        self.metadata = metadata = self._made_metadata(paths)
        self.logs = LogManager(
            self.fs,
            paths,
            settings=replace(ManagerSettings.of(self.config), is_sole_replica=False),
            default_config=LogConfig.of(self.config),
            topic_settings=metadata.committed_settings,
            clock=self.clock,
            scheduler=self.scheduler,
            is_stray=lambda log: is_stray(metadata.image, self.node_id, log),
            on_locked=metadata.load,
            on_flush=self.reporting.on_flush,
            on_offline=self._directory_failed,
            on_all_failed=lambda: self._fail("every log directory has failed"),
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

    def _made_metadata(self, paths: list[Path]) -> ClusterMetadata:
        return ClusterMetadata(
            ClusterMetadataSetup(
                fs=self.fs,
                config=self.config,
                node_id=self.node_id,
                directories=paths,
                clock=self.clock,
                scheduler=self.scheduler,
                in_thread=self.in_thread,
                on_failure=lambda error: self._fail(f"the cluster metadata cannot be written: {error}"),
            )
        )

    def _follow_quotas(self) -> None:
        self.quotas = ClientQuotas(self.config, self.timers)

        def follow() -> None:
            quotas = self.metadata.image.client_quotas
            self.quotas.change(quotas)
            self.connection_counts.rates.change_quotas(address_quotas(quotas))

        follow()
        self._started.callback(self.metrics.add_source(lambda: quota_samples(self.quotas, self.timers.monotonic_ms())))
        self._started.callback(self.metadata.subscribe(lambda change: follow() if change.quotas else None))

    def _follow_acls(self) -> None:
        if not self.authorizer.is_on:
            return
        self.authorizer.change(self.metadata.image.acls.values())
        self._started.callback(
            self.metadata.subscribe(lambda change: self.authorizer.change(change.added_acls, change.removed_acls))
        )

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
            node_id=self.node_id,
            logs=self.logs,
            metadata=self.metadata,
            timers=self.timers,
            in_thread=self.in_thread,
            spawn=self.spawn,
        )
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

    async def _join(self) -> None:
        """Register the broker with the cluster, so that partitions get leaders."""
        endpoints = [BrokerEndpoint(one.name, one.host, one.port, one.protocol) for one in self.advertised]
        directories = [directory.id for directory in self.logs.online if directory.id is not None]
        await self.metadata.register_broker(
            endpoints,
            directories,
            cordoned=cordoned_ids(self.logs),
            previous_epoch=self.logs.previous_broker_epoch(),
        )
        self._started.push_async_callback(self.metadata.shut_down_broker)
