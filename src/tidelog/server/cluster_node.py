"""A node of a cluster: the parts that brokers and controllers have in common, and their start and end.

========================  ==========================================================================================
node                      its open listeners
========================  ==========================================================================================
broker                    those for clients and brokers
controller                those that ``controller.listener.names`` names
broker and controller     both. The controller's is open only if ``listeners`` has it and it has a service
========================  ==========================================================================================

A subclass starts its own parts in ``_start_parts``. They are stopped in reverse. The event loop's thread owns
everything except the logs. Slow work goes through ``in_thread``, and other threads notify the loop by
``loop.call_soon_threadsafe``. Thread rule: the event loop only, except for the constructor. Source: Kafka's
``SharedServer``.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.replication.broker_state import BrokerState
from tidelog.runtime import SYSTEM_CLOCK, Clock, Scheduler, ThreadScheduler
from tidelog.runtime.timers import LoopTimers, Timers
from tidelog.server.authorization.authorizer import Authorizer
from tidelog.server.metadata.broker_metadata import BrokerMetadata
from tidelog.server.metadata.controller.administration import Administration
from tidelog.server.metadata.controller.periodic_tasks import RunningTask
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata, ClusterMetadataSetup
from tidelog.server.metadata.kraft.controller_tasks import tasks_of
from tidelog.server.metadata.kraft.formatting import metadata_directory_of
from tidelog.server.metadata.kraft.metadata_metrics import MetadataMetrics
from tidelog.server.metadata.kraft.scram_users import ScramUsers
from tidelog.server.network.connection import Service
from tidelog.server.network.endpoint import ListenerEndpoint
from tidelog.server.network.limits import ConnectionCounts
from tidelog.server.network.listener import Listener
from tidelog.server.quotas.address_quotas import address_quotas
from tidelog.server.quotas.client_quotas import ClientQuotas
from tidelog.server.quotas.quota_metrics import quota_samples
from tidelog.server.security.scram_exchange import NO_CREDENTIALS
from tidelog.server.server_metrics import ServerMetrics
from tidelog.server.start_settings import StartSettings
from tidelog.storage.fs import LOCAL, FileSystem
from tidelog.storage.manager.metrics.manager_metrics import MetricsReporting

if TYPE_CHECKING:
    from tidelog.server.metadata.observer.controller_channel import ControllerChannel

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class ClusterNode(ABC):
    """A node in a state of ``BrokerState``. Call ``start`` once, then ``stop``; a restart is impossible."""

    loop: asyncio.AbstractEventLoop
    timers: Timers
    metadata: BrokerMetadata
    controller: Administration
    """The changes of administrators, made in this process. A broker under other controllers has none."""
    quorum_controller: ClusterMetadata
    """The active controller of a metadata log. Only a node with the controller role has one."""
    controllers: ControllerChannel | None = None
    """The channel to the active controller in another process. A node with the controller role has none."""
    quotas: ClientQuotas
    service: Service | None = None
    """The handler of requests at the broker's listeners."""
    controller_service: Service | None = None
    """The handler of requests at the controller's listeners."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock = SYSTEM_CLOCK,
        scheduler: Scheduler | None = None,
        timers: Timers | None = None,
        fs: FileSystem = LOCAL,
        node_id: int | None = None,
    ) -> None:
        """Create the parts, but open nothing. Raise ConfigError with every mistake. Timers default to real time.

        ``node_id`` is the id of a broker whose config has none.
        """
        settings = StartSettings.of(config)
        found_id = settings.node_id if node_id is None else node_id
        if found_id is None:
            raise ConfigError("broker.id has to be set")
        self.config = config
        self.node_id = found_id
        self.has_controller = settings.has_controller
        self.clock = clock
        self.fs = fs
        self.state = BrokerState.NOT_RUNNING
        self.endpoints = settings.endpoints
        self.limits = settings.limits
        self.security = settings.security
        self.authorizer = Authorizer(settings.authorizer)
        self.zookeeper = settings.zookeeper
        self.connection_counts = ConnectionCounts(self.limits)
        self.listeners: list[Listener] = []
        self.reporting = MetricsReporting(config, clock)
        self.metrics = self.reporting.registry
        self.server_metrics = ServerMetrics(self.metrics)
        self.scheduler = scheduler or ThreadScheduler(config.number("background.threads"), clock=clock)
        self.pool = ThreadPoolExecutor(config.number("num.io.threads"), thread_name_prefix="tidelog-io")
        self.on_failure: Callable[[str], None] = lambda _reason: None
        """A callback on the event loop for a fatal failure. The owner of the node then stops it."""
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
            await self._start_parts()
        except BaseException:
            await self.stop()
            raise
        for listener in self.listeners:
            listener.start()
        self.state = BrokerState.RUNNING

    def give_up_start(self) -> None:
        """Let a running ``start`` fail with StartGivenUpError if it waits for other nodes."""
        self.metadata.give_up_start()

    async def stop(self, *, hands_over: bool = True) -> None:
        """Stop the started parts in reverse; idempotent. Without ``hands_over`` the leaderships do not move first."""
        if self.state is BrokerState.NOT_RUNNING:
            return
        if self.state is BrokerState.RUNNING:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            if hands_over:
                await self.metadata.hand_over()
        for listener in self.listeners:
            listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.state = BrokerState.SHUTTING_DOWN
        try:
            await self._started.aclose()
        finally:
            self.pool.shutdown()
            self.state = BrokerState.NOT_RUNNING

    @property
    def advertised(self) -> tuple[ListenerEndpoint, ...]:
        """The endpoints that clients use to find this broker. They are known once it has started."""
        return self.endpoints.advertised_at({listener.endpoint.name: listener.port for listener in self.listeners})

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

    @property
    def data_directories(self) -> Sequence[Path]:
        """The log directories in use."""
        return [metadata_directory_of(self.config)]

    @property
    def accepts_brokers(self) -> bool:
        """True if this node is a controller that other nodes can reach."""
        return self.controller_service is not None and bool(self.endpoints.controllers)

    def is_controllers_listener(self, name: str) -> bool:
        """Return True for a listener of the controller."""
        return any(endpoint.name == name for endpoint in self.endpoints.controllers)

    # --- steps of the start ---

    def _open_listeners(self) -> None:
        for endpoints, service in (
            (self.endpoints.listeners, self.service),
            (self.endpoints.controllers, self.controller_service),
        ):
            if service is not None:
                for endpoint in endpoints:
                    self._open_listener(endpoint, service)

    def _open_listener(self, endpoint: ListenerEndpoint, service: Service) -> None:
        listener = Listener(
            endpoint,
            loop=self.loop,
            timers=self.timers,
            service=service,
            limits=self.limits,
            counts=self.connection_counts,
            security=self.security[endpoint.name],
            credentials_of=lambda mechanism: ScramUsers(self.metadata, mechanism, self._secret),
        )
        listener.open()
        self.listeners.append(listener)

    @property
    def _secret(self) -> bytes:
        """The secret of fake SCRAM credentials."""
        return NO_CREDENTIALS.secret

    @abstractmethod
    async def _start_parts(self) -> None:
        """Start the parts of the subclass. ``_started`` receives their ends."""

    async def _start_metadata(self) -> None:
        """Begin a new metadata epoch with this process as leader."""
        await self.metadata.start()
        self._report_metadata()
        if self.accepts_brokers:
            for task in tasks_of(self.quorum_controller, self.config):
                running = RunningTask(task, self.timers, self.spawn)
                running.start()
                self._started.callback(running.stop)

    def _report_metadata(self) -> None:
        """Report the metrics of the cluster metadata, as every node does that may be its controller."""
        metrics = MetadataMetrics(self.metadata, self.node_id)
        metrics.watch(self.metrics)
        self._started.callback(metrics.close)

    def _made_metadata(self, paths: list[Path]) -> ClusterMetadata:
        self.controller = self.quorum_controller = ClusterMetadata(
            ClusterMetadataSetup(
                fs=self.fs,
                config=self.config,
                node_id=self.node_id,
                directories=paths,
                clock=self.clock,
                scheduler=self.scheduler,
                in_thread=self.in_thread,
                on_failure=lambda error: self._fail(f"the cluster metadata cannot be written: {error}"),
                accepts_brokers=self.accepts_brokers,
            )
        )
        return self.quorum_controller

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
