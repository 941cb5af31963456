"""The cluster metadata of a broker whose controllers are other nodes. It implements ``BrokerMetadata``.

====================  =================================================================================================
call                  what happens
====================  =================================================================================================
``load``              the metadata log is opened; the observer and the lifecycle begin; the call returns once the broker
                      is registered and has caught up, and the image stands still from then on
``join``              the image goes on; the broker asks for its unfencing, and the call returns once it is RUNNING and
                      the image shows it unfenced
``give_up_start``     ``load`` and ``join`` end with StartGivenUpError
``hand_over``         a controlled shutdown: the call returns once the controller lets the broker stop, or after 5 min
``leave``, ``close``  no heartbeat follows; connections and the log are closed
====================  =================================================================================================

A controller that is away is asked again: at the start until ``initial.broker.registration.timeout.ms``, and later for
ever. A fatal contradiction (another cluster, a log that disagrees with the quorum, a record of a later release) stops
the broker with its reason. Thread rule: the event loop only, but for ``format`` and ``load``.
Source: Kafka's ``BrokerServer``, ``SharedServer``, ``BrokerLifecycleManager``.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import randrange
from typing import Any, Final, ParamSpec, TypeVar

from tidelog.client.model.address import parse_servers
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError, TidelogError, TopicPartition
from tidelog.replication import BrokerLifecycle, BrokerState, LifecycleSettings, MetadataObserver, ObserverSettings
from tidelog.replication.observer_messages import UNKNOWN, QuorumNode
from tidelog.replication.registration_request import NO_BROKER_EPOCH, BrokerRegistrationRequest
from tidelog.runtime import Clock, Scheduler
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.links.link_settings import controller_link_settings
from tidelog.server.links.node_links import Route, direct
from tidelog.server.metadata.broker_metadata import OwnRegistration, StartGivenUpError
from tidelog.server.metadata.features import (
    KRAFT_VERSION,
    SUPPORTED,
    supports_cordoned_directories,
    supports_directories,
)
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.formatting import FormatRequest, format_directories, metadata_directory_of
from tidelog.server.metadata.kraft.metadata_log import MetadataLogSettings
from tidelog.server.metadata.kraft.quorum import Voters, past_voters, static_voters
from tidelog.server.metadata.observer.controller_channel import ControllerChannel
from tidelog.server.metadata.observer.controller_requests import ControllerRequests
from tidelog.server.metadata.observer.directory_assignments import DirectoryAssignments
from tidelog.server.metadata.observer.lifecycle_driver import LifecycleDriver
from tidelog.server.metadata.observer.observed_image import ObservedImage
from tidelog.server.metadata.observer.observed_log import ObservedLog
from tidelog.server.metadata.observer.observer_driver import ObserverDriver, ObserverParts
from tidelog.server.metadata.observer.quorum_links import QuorumLinks
from tidelog.server.metadata.observer.quorum_messages import Observer
from tidelog.server.metadata.published_metadata import Listener, Preparation
from tidelog.server.metadata.requests import AlteredPartition, NewTopic, PartitionAlteration, TopicResult
from tidelog.storage.checkpoint import MetaProperties
from tidelog.storage.fs import FileSystem, Lock
from tidelog.storage.log.view.directory_state import LOCK_FILE

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_HAND_OVER_TIMEOUT_S: Final = 300
_FIRST_BOOTSTRAP_ID: Final = -2
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMetadataSetup:
    fs: FileSystem
    config: BrokerConfig
    node_id: int
    directories: Sequence[Path]
    """All log directories of the broker."""
    clock: Clock
    scheduler: Scheduler
    own: Callable[[], OwnRegistration]
    """Returns this broker's registration once the log directories are locked; any thread."""
    on_failure: Callable[[str], None]
    """A callback with the reason for which the broker must stop."""
    route: Route = direct

    @property
    def metadata_directory(self) -> Path:
        return metadata_directory_of(self.config)


class ObservedMetadata:
    def __init__(self, setup: ObservedMetadataSetup) -> None:
        """Create the object without disk access. Raise ConfigError if the quorum's properties are not valid."""
        self._setup = setup
        config = setup.config
        self._loop = asyncio.get_running_loop()
        self._static_voters = static_voters(config)
        self._bootstrap = bootstrap_nodes(config, self._static_voters)
        self._settings = controller_link_settings(config)
        self._links = QuorumLinks(self._settings, setup.route)
        self.channel = ControllerChannel(
            self._links, request_timeout_ms=self._settings.request_timeout_ms, monotonic_ms=setup.clock.monotonic_ms
        )
        self._requests = ControllerRequests(
            self.channel,
            node_id=setup.node_id,
            timeout_ms=self._settings.request_timeout_ms,
            broker_epoch=lambda: self.broker_epoch,
            image=lambda: self.image,
        )
        self._assignments = DirectoryAssignments(self._requests.assign_directories)
        self._properties: MetaProperties | None = None
        self._lock: Lock | None = None
        self._log: ObservedLog | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tidelog-metadata")
        self._image = self._new_image("")
        self._observer: ObserverDriver | None = None
        self._lifecycle: LifecycleDriver | None = None
        self._registered: tuple[uuid.UUID, ...] = ()
        """The log directories of the registration. Some may fail while their logs are loaded."""
        self._failure: asyncio.Future[TidelogError] = self._loop.create_future()
        """The first reason for which this broker cannot go on."""
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False

    # --- start and end ---

    def format(self) -> None:
        """Check the log directories, and format new ones next to formatted ones. Raise ConfigError if none is."""
        metadata_directory = self._setup.metadata_directory
        request = FormatRequest(
            node_id=self._setup.node_id,
            directories=tuple(dict.fromkeys((metadata_directory, *self._setup.directories))),
            metadata_directory=metadata_directory,
            controller=None,
            is_controller=False,
        )
        self._properties = format_directories(self._setup.fs, request, self._setup.clock)[metadata_directory]
        self._image = self._new_image(self._properties.cluster_id or "")

    def load(self) -> None:
        """Return once this broker is registered, and has the metadata up to its registration.

        Raise ConfigError with the reason if that is impossible, and StorageError or CorruptRecordError if the log
        cannot be read.
        """
        setup = self._setup
        directory = setup.metadata_directory
        if directory not in setup.directories:
            self._lock = setup.fs.lock(directory / LOCK_FILE)
        log = self._log = ObservedLog(
            setup.fs, directory, MetadataLogSettings.of(setup.config), setup.clock, setup.scheduler
        )
        self._image.load(log)
        own = setup.own()
        asyncio.run_coroutine_threadsafe(self._catch_up(log, own), self._loop).result()

    async def _catch_up(self, log: ObservedLog, own: OwnRegistration) -> None:
        assert not self._is_closed, "closed before it was loaded"
        self._start_observer(log)
        lifecycle = self._start_lifecycle(own)
        self._run(self._assignments.run())
        _log.info(
            "Waiting for the active controller: %s", ", ".join(f"{one.host}:{one.port}" for one in self._bootstrap)
        )
        await self._reach(lifecycle, BrokerState.RECOVERY)
        self._image.split()
        self.image.controller_id = self._image.committed.controller_id = self._setup.node_id
        self.subscribe(lifecycle.follow)
        _log.info("Caught up with the cluster metadata at offset %d", self.applied_offset)

    async def start(self) -> None:
        """Return at once: the metadata is followed since ``load``."""

    async def join(self, own: OwnRegistration) -> None:
        """Return once the controller has unfenced this broker. Raise ConfigError with the reason if it must stop."""
        lifecycle = self._running_lifecycle
        self._image.release()
        await self.report_offline_directories([one for one in self._registered if one not in own.directories])
        if supports_cordoned_directories(self.image):
            await self.report_cordoned_directories(own.cordoned)
        lifecycle.post(lifecycle.core.set_ready_to_unfence)
        await self._reach(lifecycle, BrokerState.RUNNING)
        await self._unless_failed(lifecycle.be_visible())

    def give_up_start(self) -> None:
        if not self._failure.done():
            self._failure.set_result(StartGivenUpError("the broker is to stop before it has started"))

    async def hand_over(self) -> None:
        """Ask for a controlled shutdown, and return once the broker may stop."""
        lifecycle = self._lifecycle
        if lifecycle is None or self._failure.done():
            return
        lifecycle.post(lifecycle.core.begin_controlled_shutdown)
        try:
            async with asyncio.timeout(_HAND_OVER_TIMEOUT_S):
                await self._reach(lifecycle, BrokerState.SHUTTING_DOWN)
        except TimeoutError:
            _log.error("The controlled shutdown has taken %d s: this broker stops without it", _HAND_OVER_TIMEOUT_S)
        except ConfigError as error:
            _log.error("The controlled shutdown has failed: %s", error.message)

    async def leave(self) -> None:
        """End the heartbeats."""
        lifecycle = self._lifecycle
        if lifecycle is not None and not self._failure.done():
            lifecycle.post(lambda _now_ms: lifecycle.core.begin_shutdown())
            await self._reach(lifecycle, BrokerState.SHUTTING_DOWN)

    async def close(self) -> None:
        """End the tasks, and close the connections and the log; idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for driver in (self._observer, self._lifecycle):
            if driver is not None:
                await driver.close()
        self._links.close()
        await self._image.close()
        try:
            if self._log is not None:
                await self._in_thread(self._log.close)
        finally:
            self._pool.shutdown()
            if self._lock is not None:
                self._lock.release()

    # --- queries ---

    @property
    def image(self) -> MetadataImage:
        return self._image.published.image

    @property
    def broker_epoch(self) -> int:
        return NO_BROKER_EPOCH if self._lifecycle is None else self._lifecycle.core.broker_epoch

    @property
    def applied_offset(self) -> int:
        return self._image.published.end_offset - 1

    @property
    def finalized_features(self) -> Mapping[str, int]:
        own = self._image.voters.kraft_version
        return {**self.image.features, **({KRAFT_VERSION: own} if own else {})}

    def committed_settings(self, topic: str) -> Mapping[str, str]:
        return self._image.committed.settings_of(ResourceType.TOPIC, topic)

    def subscribe(self, listener: Listener, prepare: Preparation | None = None) -> Callable[[], None]:
        return self._image.published.subscribe(listener, prepare)

    # --- changes ---

    async def create_topics(self, topics_: Sequence[NewTopic], /) -> list[TopicResult]:
        return await self._requests.create_topics(topics_)

    async def allocate_producer_ids(self) -> range:
        return await self._requests.allocate_producer_ids()

    async def alter_partitions(self, alterations: Sequence[PartitionAlteration], /) -> list[AlteredPartition]:
        return await self._requests.alter_partitions(alterations)

    async def assign_directories(self, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID], /) -> None:
        if supports_directories(self.image):
            await self._assignments.assign(directories)

    async def report_offline_directories(self, directories: Sequence[uuid.UUID], /) -> None:
        """Report failed log directories with all further heartbeats."""
        lifecycle = self._running_lifecycle
        for directory in directories:
            lifecycle.post(lambda now_ms, directory=directory: lifecycle.core.fail_directory(directory, now_ms))  # type: ignore[misc]

    async def report_offline_replicas(self, partitions: Sequence[TopicPartition], /) -> None:
        """Return at once: the log directories of replicas are in the metadata."""

    async def report_cordoned_directories(self, directories: Sequence[uuid.UUID], /) -> None:
        """Report them with all further heartbeats, if the metadata.version has cordoned directories."""
        lifecycle = self._running_lifecycle
        cordoned = tuple(directories) if supports_cordoned_directories(self.image) else None
        lifecycle.post(lambda now_ms: lifecycle.core.cordon_directories(cordoned, now_ms))

    # --- parts ---

    @property
    def _running_lifecycle(self) -> LifecycleDriver:
        assert self._lifecycle is not None, "not loaded"
        return self._lifecycle

    def _in_thread(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> asyncio.Future[Result]:
        """Run work on the log in its thread. The thread of ``load`` waits, so it cannot be one of those of requests."""
        return self._loop.run_in_executor(self._pool, lambda: function(*args, **kwargs))

    def _new_image(self, cluster_id: str) -> ObservedImage:
        setup = self._setup
        voters = self._static_voters or past_voters(())
        return ObservedImage(cluster_id, voters, setup.config, setup.clock, self._in_thread)

    def _start_observer(self, log: ObservedLog) -> None:
        setup, config = self._setup, self._setup.config
        assert self._properties is not None, "not formatted"
        timeout_ms = config.number("controller.quorum.request.timeout.ms")
        core = MetadataObserver(
            log,
            ObserverSettings(
                node_id=setup.node_id,
                bootstrap=self._bootstrap,
                request_timeout_ms=timeout_ms,
                retry_backoff_ms=config.number("controller.quorum.retry.backoff.ms"),
            ),
            randrange,
        )
        self._observer = driver = ObserverDriver(
            ObserverParts(
                core=core,
                log=log,
                image=self._image,
                links=self._links,
                observer=Observer(
                    cluster_id=self._properties.cluster_id or "",
                    node_id=setup.node_id,
                    directory_id=self._properties.directory_id,
                    fetch_max_bytes=config.number("controller.quorum.fetch.max.bytes"),
                    snapshot_max_bytes=config.number("controller.quorum.fetch.snapshot.max.bytes"),
                ),
                in_thread=self._in_thread,
                request_timeout_ms=timeout_ms,
                on_leader=self.channel.announce,
                on_stop=self._fail,
            ),
            setup.clock.monotonic_ms,
        )
        stored = log.quorum_state()
        driver.start(
            epoch=0 if stored is None else stored.epoch,
            leader_id=UNKNOWN if stored is None else stored.leader_id,
            voters=voter_nodes(self._image.voters),
        )
        self._image.on_voters = lambda voters: core.see_voters(voter_nodes(voters))
        self._run(driver.run())
        self._run(self._image.run())

    def _start_lifecycle(self, own: OwnRegistration) -> LifecycleDriver:
        setup, config = self._setup, self._setup.config
        rack = config["broker.rack"]
        self._registered = tuple(own.directories)
        registration = BrokerRegistrationRequest(
            broker_id=setup.node_id,
            cluster_id=self._image.committed.cluster_id,
            incarnation_id=uuid.uuid4(),
            listeners=tuple(own.endpoints),
            features=SUPPORTED,
            log_dirs=tuple(sorted(own.directories)),
            rack=None if rack is None else str(rack),
            previous_broker_epoch=NO_BROKER_EPOCH if own.previous_epoch is None else own.previous_epoch,
        )
        core = BrokerLifecycle(
            registration,
            LifecycleSettings(
                heartbeat_interval_ms=config.number("broker.heartbeat.interval.ms"),
                registration_timeout_ms=config.number("initial.broker.registration.timeout.ms"),
                log_dir_failure_timeout_ms=config.number("log.dir.failure.timeout.ms"),
            ),
        )
        self._lifecycle = driver = LifecycleDriver(
            core,
            self.channel,
            self._image.published,
            node_id=setup.node_id,
            monotonic_ms=setup.clock.monotonic_ms,
            on_stop=self._fail,
        )
        driver.post(core.start)
        self._run(driver.run())
        return driver

    async def _reach(self, lifecycle: LifecycleDriver, *states: BrokerState) -> None:
        """Return once the broker is in one of the states. Raise the failure if there is one before."""
        await self._unless_failed(lifecycle.reach(*states))

    async def _unless_failed(self, work: Coroutine[Any, Any, None]) -> None:
        reached = self._loop.create_task(work)
        awaited: list[asyncio.Future[Any]] = [reached, self._failure]
        try:
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if not reached.done():
                raise self._failure.result()
        finally:
            reached.cancel()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a part until the end. Its error stops the broker."""
        task = self._loop.create_task(work)
        task.add_done_callback(self._part_ended)
        self._tasks.append(task)

    def _part_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("The cluster metadata can no longer be followed", exc_info=error)
            self._fail(f"the cluster metadata can no longer be followed: {error}")

    def _fail(self, reason: str) -> None:
        """Stop the broker with the first reason."""
        if not self._failure.done():
            self._failure.set_result(ConfigError(reason))
            _log.error("This broker must stop: %s", reason)
            self._setup.on_failure(reason)


def bootstrap_nodes(config: BrokerConfig, static: Voters | None) -> Sequence[QuorumNode]:
    """Return the servers to ask for the quorum's leader. Raise ConfigError if there is none, or one is malformed."""
    if static is not None:
        return tuple(voter_nodes(static).values())
    servers = parse_servers("controller.quorum.bootstrap.servers", config.texts("controller.quorum.bootstrap.servers"))
    return tuple(QuorumNode(_FIRST_BOOTSTRAP_ID - at, host, port) for at, (host, port) in enumerate(servers))


def voter_nodes(voters: Voters) -> dict[int, QuorumNode]:
    """Return the voters' addresses by id. A voter without an address is left out."""
    return {
        voter.id: QuorumNode(voter.id, voter.endpoints[0].host, voter.endpoints[0].port)
        for voter in voters.voters
        if voter.endpoints
    }
