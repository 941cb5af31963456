"""The cluster metadata, which this process keeps alone, as controller, quorum and broker.

``image`` is for reading. Each change is a rule of the controller, and ``MetadataStore`` runs one rule after the other.
An awaited change returns once it is on the disk, is part of the image, and every listener was notified. Each change
becomes part of the image in one step of the event loop. The calls of a broker's life are::

    format       new directories get their files
    load         in a background thread, after the log directories are locked and before their logs are loaded
    start        a new epoch; the controller is registered; the broker is fenced after an unclean shutdown
    join, requests, leave
    close

Thread rule: the event loop only, but for ``format`` and ``load``.
Source: Kafka's ``QuorumController``, ``BrokerLifecycleManager``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.runtime import Clock, Scheduler
from tidelog.runtime.executor import InThread
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.broker_metadata import OwnRegistration
from tidelog.server.metadata.controller import brokers, leaders
from tidelog.server.metadata.controller.administration import Administration
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision
from tidelog.server.metadata.features import KRAFT_VERSION, supports_directories
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.formatting import FormatRequest, format_directories, metadata_directory_of
from tidelog.server.metadata.kraft.metadata_store import MetadataStore, StoreSetup
from tidelog.server.metadata.kraft.observers import Observers
from tidelog.server.metadata.kraft.quorum import QuorumStatus, controller_endpoint, static_voters
from tidelog.server.metadata.kraft.remote_brokers import RemoteBrokers, RemoteBrokersSetup
from tidelog.server.metadata.published_metadata import Listener, Preparation
from tidelog.server.metadata.requests import AlteredPartition, PartitionAlteration
from tidelog.storage.fs import FileSystem, Lock
from tidelog.storage.log.view.directory_state import LOCK_FILE

T = TypeVar("T")
_ALONE = "Other nodes cannot reach this node as a controller."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadataSetup:
    fs: FileSystem
    config: BrokerConfig
    node_id: int
    directories: Sequence[Path]
    """All log directories of the broker."""
    clock: Clock
    scheduler: Scheduler
    in_thread: InThread
    on_failure: Callable[[TidelogError], None]
    """A callback for failures, as in ``StoreSetup``."""
    accepts_brokers: bool = False
    """True if other nodes can reach the controller's listener."""

    @property
    def metadata_directory(self) -> Path:
        return metadata_directory_of(self.config)


class ClusterMetadata(Administration):
    """The metadata and its changes; see ``Administration``."""

    def __init__(self, setup: ClusterMetadataSetup) -> None:
        """Create the object without disk access. Raise ConfigError if the quorum's properties are not valid."""
        self._setup = setup
        self._settings = ControllerSettings(node_id=setup.node_id, config=setup.config)
        self._static_voters = static_voters(setup.config)
        self._controller = controller_endpoint(setup.config)
        self._incarnation_id = uuid.uuid4()
        self._broker_epoch = -1
        self._lock: Lock | None = None
        self._remote_brokers: RemoteBrokers | None = None
        self._observers: Observers | None = None
        self._store = MetadataStore(
            StoreSetup(
                fs=setup.fs,
                directory=setup.metadata_directory,
                settings=self._settings,
                static_voters=self._static_voters,
                clock=setup.clock,
                scheduler=setup.scheduler,
                in_thread=setup.in_thread,
                on_failure=setup.on_failure,
                endpoint=self._controller if setup.accepts_brokers else None,
            ),
            MetadataImage(),
        )

    # --- start and end ---

    def format(self) -> None:
        """Format new log directories; see ``formatting``."""
        metadata_directory = self._setup.metadata_directory
        request = FormatRequest(
            node_id=self._setup.node_id,
            directories=tuple(dict.fromkeys((metadata_directory, *self._setup.directories))),
            metadata_directory=metadata_directory,
            controller=self._controller if self._static_voters is None else None,
            accepts_brokers=self._setup.accepts_brokers,
        )
        properties = format_directories(self._setup.fs, request, self._setup.clock)
        self.image.cluster_id = properties[metadata_directory].cluster_id or ""

    def load(self) -> None:
        """Load the metadata from the disk into the image. Raise ConfigError, StorageError or CorruptRecordError.

        Raise LockedError if the metadata directory is no log directory and another process has locked it.
        """
        directory = self._setup.metadata_directory
        if directory not in self._setup.directories:
            self._lock = self._setup.fs.lock(directory / LOCK_FILE)
        self._store.load()

    async def start(self) -> None:
        """Become the leader. The metadata can be changed from then on."""
        await self._store.become_leader()
        node_id = self._setup.node_id
        if brokers.registers_controllers(self._store.committed):
            await self._change(
                lambda image: brokers.register_controller(image, node_id, self._incarnation_id, [self._controller])
            )
        known = self.image.brokers.get(node_id)
        if known is not None and not known.is_fenced:
            await self._change(lambda image: brokers.fence_broker(image, self._settings, node_id))
        if self._setup.accepts_brokers:
            self._remote_brokers = self._made_remote_brokers()
            self._observers = Observers(self._store, self._setup.clock, self._setup.in_thread)

    async def close(self) -> None:
        """Close the store and release the lock, also after a failure; idempotent."""
        try:
            await self._store.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    # --- queries ---

    @property
    def image(self) -> MetadataImage:
        """The current image. Do not change it, and do not keep it over an ``await``."""
        return self._store.image

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, or -1 before it."""
        return self._broker_epoch

    @property
    def applied_offset(self) -> int:
        """The offset of the last record in the image. Of two images, the newer has the greater offset."""
        return self._store.published.end_offset - 1

    def committed_settings(self, topic: str) -> Mapping[str, str]:
        """Return a topic's configs as last written. Its logs are created before ``image`` has the topic."""
        return self._store.committed.settings_of(ResourceType.TOPIC, topic)

    @property
    def quorum(self) -> QuorumStatus:
        status = self._store.quorum
        return status if self._observers is None else replace(status, observers=self._observers.progress)

    @property
    def finalized_features(self) -> dict[str, int]:
        """The finalized levels as clients see them, with the quorum's ``kraft.version``."""
        own = self.quorum.kraft_version
        return {**self.image.features, **({KRAFT_VERSION: own} if own else {})}

    def subscribe(self, listener: Listener, prepare: Preparation | None = None) -> Callable[[], None]:
        """Follow the published changes; see ``PublishedMetadata.subscribe``."""
        return self._store.published.subscribe(listener, prepare)

    # --- this broker's partitions ---

    async def alter_partitions(self, alterations: Sequence[PartitionAlteration]) -> list[AlteredPartition]:
        """Change the in-sync replicas of partitions that this broker leads."""
        node_id = self._setup.node_id
        return await self._change(lambda image: leaders.alter_partitions(image, self._settings, node_id, alterations))

    async def assign_directories(self, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID]) -> None:
        """Report the log directory of this broker's replicas, by topic id and partition number."""
        node_id = self._setup.node_id
        if supports_directories(self.image):
            await self._change(lambda image: leaders.assign_directories(image, self._settings, node_id, directories))

    async def report_offline_directories(self, directories: Sequence[uuid.UUID]) -> None:
        """Report failed log directories of this broker. It no longer leads the partitions in them."""
        node_id = self._setup.node_id
        await self._change(lambda image: brokers.take_directories_offline(image, self._settings, node_id, directories))

    async def report_offline_replicas(self, partitions: Sequence[TopicPartition], /) -> None:
        """Return at once: the log directories of replicas are in the metadata."""

    async def report_cordoned_directories(self, directories: Sequence[uuid.UUID]) -> None:
        """Record the log directories of this broker that get no new partitions; a no-op before the broker registers."""
        if self._broker_epoch >= 0:
            node_id = self._setup.node_id
            await self._change(lambda image: brokers.cordon_directories(image, node_id, directories))

    # --- this broker ---

    async def register_broker(
        self,
        endpoints: Sequence[BrokerEndpoint],
        directories: Sequence[uuid.UUID],
        *,
        cordoned: Sequence[uuid.UUID] = (),
        previous_epoch: int | None = None,
    ) -> None:
        """Register this broker, which then leads its partitions.

        ``cordoned``: the part of ``directories`` that gets no new partitions. ``previous_epoch``: the epoch of the
        previous run after a clean shutdown, from the log directories' markers.
        """
        node_id = self._setup.node_id
        rack = self._setup.config["broker.rack"]
        new = brokers.NewRegistration(
            broker_id=node_id,
            incarnation_id=self._incarnation_id,
            endpoints=endpoints,
            directories=directories,
            rack=None if rack is None else str(rack),
            previous_epoch=previous_epoch,
        )
        self._broker_epoch = await self._change(
            lambda image: brokers.register_broker(image, self._settings, new, self._store.log.end_offset)
        )
        await self._change(lambda image: brokers.unfence_broker(image, self._settings, node_id, cordoned))

    async def join(self, own: OwnRegistration) -> None:
        """Register this broker; see ``register_broker``."""
        await self.register_broker(
            own.endpoints, own.directories, cordoned=own.cordoned, previous_epoch=own.previous_epoch
        )

    def give_up_start(self) -> None:
        """Return at once: the start waits for no other node."""

    async def hand_over(self) -> None:
        """Return at once: the controller ends with this broker, and ``leave`` hands over."""

    async def leave(self) -> None:
        """Hand over leadership and leave. A partition without another eligible leader has none until this broker is
        back."""
        node_id = self._setup.node_id
        if self._store.is_writable and self.image.is_active(node_id):
            await self._change(lambda image: brokers.begin_shutdown(image, self._settings, node_id))
            await self._change(lambda image: brokers.fence_broker(image, self._settings, node_id))

    # --- other nodes ---

    @property
    def remote_brokers(self) -> RemoteBrokers:
        """The brokers of other processes. Only a controller that other nodes can reach has them."""
        if self._remote_brokers is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, _ALONE)
        return self._remote_brokers

    @property
    def observers(self) -> Observers:
        """The nodes that fetch the metadata log. Only a controller that other nodes can reach has them."""
        if self._observers is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, _ALONE)
        return self._observers

    async def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker. Raise ApiError for an unknown one, and for the active broker of this process."""
        await self._change(lambda image: brokers.unregister_broker(image, self._settings, broker_id))

    @property
    def endpoint(self) -> BrokerEndpoint:
        """The endpoint at which other nodes reach this controller."""
        return self._controller

    # --- internals ---

    def _made_remote_brokers(self) -> RemoteBrokers:
        return RemoteBrokers(
            RemoteBrokersSetup(
                store=self._store,
                change=self._change,
                settings=self._settings,
                clock=self._setup.clock,
                session_timeout_ms=self._setup.config.number("broker.session.timeout.ms"),
            )
        )

    async def _change(
        self,
        decide: Callable[[MetadataImage], Decision[T]],
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> T:
        def decided() -> Decision[T]:
            decision = decide(self._store.committed)
            return decision._replace(records=()) if validate_only else decision

        return await self._store.change(decided, timeout_ms)
