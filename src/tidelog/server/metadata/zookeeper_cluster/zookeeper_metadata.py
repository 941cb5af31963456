"""The cluster metadata of a broker that keeps it in ZooKeeper. It implements ``BrokerMetadata`` and ``Administration``.

====================  =================================================================================================
call                  what happens
====================  =================================================================================================
``format``            the session begins; Kafka's persistent znodes and the cluster id are made if they are missing; the
                      log directories are checked, and new ones formatted
``load``              all znodes are read into the image; topics without an id get one (KIP-516); the image stands still
                      from then on
``start``             this broker gives up the places of its earlier run, once the session of that run has ended; the
                      image stands still again
``join``              the image goes on; this broker registers, and stands for election; the call returns once its
                      partitions have leaders, if it is the controller
``hand_over``         other replicas lead this broker's partitions, and its registration ends
``leave``, ``close``  the session ends
====================  =================================================================================================

A lost connection is made again by the session: changes wait for it, and records are served meanwhile. All znodes are
read again then. An expired session has taken the registration with it: this broker is fenced, until it has registered
again. Every broker changes metadata itself; the duties of the controller are in ``controller_role``.
Thread rule: the event loop only, but for ``format`` and ``load``. Source: Kafka's ``KafkaServer``, ``KafkaController``,
``ZkAdminManager``, ``KafkaZkClient``.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Final, TypeVar

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.zookeeper_keys import log_settings
from tidelog.model import ConfigError, TidelogError, TopicPartition, ZnodeError, ZooKeeperError
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.replication.registration_request import NO_BROKER_EPOCH
from tidelog.runtime import Clock
from tidelog.runtime.metrics import Sample
from tidelog.runtime.timers import Timers, pause
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.broker_metadata import OwnRegistration, StartGivenUpError
from tidelog.server.metadata.controller import leaders, scram_users, topics
from tidelog.server.metadata.controller.administration import Administration
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision
from tidelog.server.metadata.controller.periodic_tasks import PeriodicTask, RunningTask, election_tasks
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.published_metadata import Listener, Preparation
from tidelog.server.metadata.requests import (
    AlteredPartition,
    FeatureUpdate,
    NewTopic,
    Outcome,
    PartitionAlteration,
    ScramDeletion,
    ScramUpsertion,
    TopicResult,
)
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.first_znodes import make_first_znodes
from tidelog.server.metadata.zookeeper.operations import ConnectionLostError, Operation, SessionExpiredError
from tidelog.server.metadata.zookeeper.session import SessionState, ZnodeEvent, ZooKeeperSession
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings
from tidelog.server.metadata.zookeeper_cluster import duty_rules
from tidelog.server.metadata.zookeeper_cluster.announcements import ANNOUNCEMENTS_MS, delete_announcements
from tidelog.server.metadata.zookeeper_cluster.controller_role import ControllerRole
from tidelog.server.metadata.zookeeper_cluster.directories import format_directories
from tidelog.server.metadata.zookeeper_cluster.followed_image import FollowedImage
from tidelog.server.metadata.zookeeper_cluster.registration import Registration
from tidelog.server.metadata.zookeeper_cluster.sessions import NewSession
from tidelog.server.metadata.zookeeper_cluster.znode_changer import RETRY_BACKOFF_MS, Plan, ZnodeChanger
from tidelog.storage.fs import FileSystem

T = TypeVar("T")

_DELETION_TIMEOUT_MS: Final = 5_000
"""The longest wait of a deletion of topics for the controller, if the request has no timeout."""
_INVALID_BACKOFF_MS: Final = 10_000
"""The pause after a reading of all znodes that meets far too many of them."""
_HAND_OVER_TIMEOUT_MS: Final = 30_000
_NOT_ATTEMPTED: Final = AlteredPartition(
    Outcome(ErrorCode.OPERATION_NOT_ATTEMPTED, "The topic has a znode that is not valid."), None
)
"""The result for a topic whose znodes are damaged. The leader tries again later."""
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperMetadataSetup:
    fs: FileSystem
    config: BrokerConfig
    node_id: int
    directories: Sequence[Path]
    """All log directories of the broker."""
    clock: Clock
    timers: Timers
    zookeeper: ZooKeeperSettings
    on_failure: Callable[[str], None]
    """A callback with the reason for which the broker must stop."""
    new_session: NewSession = ZooKeeperSession


class ZooKeeperMetadata(Administration):
    def __init__(self, setup: ZooKeeperMetadataSetup) -> None:
        """Create the object without a connection."""
        self._setup = setup
        self._loop = asyncio.get_running_loop()
        self._settings = ControllerSettings(node_id=setup.node_id, config=setup.config)
        self._session = setup.new_session(setup.zookeeper, on_event=self._note_event, on_state=self._note_state)
        self._followed = FollowedImage(self._session, deletes_topics=setup.config.flag("delete.topic.enable"))
        self._changer = ZnodeChanger(self._session, self._followed, setup.timers)
        self._role = ControllerRole(
            self._settings, self._followed, self._changer, setup.timers, lambda: self._session.session_id
        )
        self._registration = Registration(setup.node_id, self._session, self._followed, self._changer, setup.timers)
        self._has_joined = False
        self._is_given_up = False
        self._starting: Future[Any] | None = None
        self._reconnected = asyncio.Event()
        self._duties: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._periodic: list[RunningTask] = []
        self._is_closed = False

    # --- start and end ---

    def format(self) -> None:
        """Connect, and check the log directories or format new ones. Raise ZooKeeperError or ConfigError."""
        cluster_id = self._wait_for(self._connect())
        setup = self._setup
        format_directories(setup.fs, setup.directories, setup.node_id, cluster_id, setup.clock)

    def _wait_for(self, step: Coroutine[Any, Any, T]) -> T:
        """Run a step of the start on the loop, and wait for it. Raise StartGivenUpError if the broker is to stop."""
        self._starting = starting = asyncio.run_coroutine_threadsafe(step, self._loop)
        if self._is_given_up:
            starting.cancel()
        try:
            return starting.result()
        except CancelledError:
            raise StartGivenUpError("the broker is to stop before it has started") from None

    async def _connect(self) -> str:
        _log.info("Connecting to ZooKeeper at %s", self._setup.zookeeper.address)
        await self._session.open()
        cluster_id = await make_first_znodes(
            self._session, has_authorizer=bool(self._setup.config["authorizer.class.name"])
        )
        self._followed.committed.cluster_id = cluster_id
        return cluster_id

    def load(self) -> None:
        """Read the metadata. Raise ZnodeError if a znode is not valid, and ConfigError next to brokers of Kafka."""
        self._wait_for(self._load())

    async def _load(self) -> None:
        self._reconnected.clear()  # a loss of the connection from now on lets ``_follow`` read all again
        await self._followed.load(self._followed.committed.cluster_id)
        self._registration.require_tidelog(self._setup.zookeeper.address)
        self._changer.is_connected.set()
        if self._missing_ids():
            await self._changer.write(lambda: Plan(self._missing_ids(), None))
        self._followed.split()
        _log.info("Read %d topics and %d brokers from ZooKeeper", len(self.image.topics), len(self.image.brokers))

    def _missing_ids(self) -> list[Operation]:
        """Give ids to topics without one before the logs are loaded: a log whose topic is not in the image is stray."""
        followed = self._followed
        unknown = [name for name in followed.mirror.children(paths.TOPICS) if name not in followed.committed.topics]
        return [one for name in unknown for one in duty_rules.id_operations(followed.mirror, name)]

    async def start(self) -> None:
        """Follow the znodes from now on, and give up the places of the earlier run.

        The image stands still again on return. So the replicas start with an image in which this broker leads nothing:
        nothing is appended in a leader epoch whose last records a crash may have taken. Raise ConfigError if another
        live broker has this id.
        """
        self._run(self._follow())
        self._run(self._followed.publish())
        self._followed.release()
        await self._repeat(self._give_up_places)
        await self._followed.reach_published()
        self._followed.hold()

    async def join(self, own: OwnRegistration) -> None:
        """Register this broker. Raise ConfigError if another live broker has its id."""
        self._followed.release()
        rack = self._setup.config["broker.rack"]
        self._registration.want(own, None if rack is None else str(rack))
        await self._repeat(self._register)
        self._has_joined = True
        self._duties = self._run(self._role.run())
        self._start_periodic_duties()
        await self._role.settle()
        await self._followed.reach_published()

    async def _give_up_places(self) -> None:
        """Leave the leaderships and in-sync replicas of the earlier run, whose session ends first. Raise ZnodeError if
        a place is not certain, because a znode has been damaged since ``load``."""
        await self._await_absence()
        await self._changer.change(lambda image: duty_rules.rejoin(image, self._settings, self._setup.node_id))

    async def _repeat(self, step: Callable[[], Awaitable[None]]) -> None:
        """Take a step of the start, again after each loss of the connection."""
        while True:
            try:
                return await step()
            except TidelogError as error:
                if self._is_given_up or not _may_pass(error):
                    raise
                _log.warning("This broker cannot join the cluster now: %s", error)
                await pause(self._setup.timers, RETRY_BACKOFF_MS)

    def give_up_start(self) -> None:
        self._is_given_up = True
        if self._starting is not None:
            self._starting.cancel()

    async def hand_over(self) -> None:
        """Let other replicas lead, then end the registration. Without ZooKeeper this broker stops as it is."""
        node_id = self._setup.node_id
        self._registration.give_up()
        try:
            await self._changer.change_valid(
                lambda image: duty_rules.hand_over(image, self._settings, node_id), timeout_ms=_HAND_OVER_TIMEOUT_MS
            )
            await self._registration.end(_HAND_OVER_TIMEOUT_MS)
        except TidelogError as error:
            _log.error("The controlled shutdown has failed: %s", error)

    async def leave(self) -> None:
        """End the role of the controller and the registration, with the session."""
        self._registration.give_up()
        self._role.resign()
        if self._duties is not None:
            self._duties.cancel()
        await self._changer.close()
        await self._session.close()

    async def close(self) -> None:
        """End the tasks and the session; idempotent."""
        if self._is_closed:
            return
        self._is_closed = self._is_given_up = True
        for periodic in self._periodic:
            periodic.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._changer.close()
        await self._session.close()
        await self._followed.close()

    # --- queries ---

    @property
    def image(self) -> MetadataImage:
        return self._followed.published.image

    @property
    def broker_epoch(self) -> int:
        return self._registration.broker_epoch

    @property
    def applied_offset(self) -> int:
        """A number that grows with each published change of this run."""
        return self._followed.published.end_offset - 1

    @property
    def finalized_features(self) -> Mapping[str, int]:
        return {}

    def committed_settings(self, topic: str) -> Mapping[str, str]:
        return log_settings(self._followed.committed.settings_of(ResourceType.TOPIC, topic))

    def subscribe(self, listener: Listener, prepare: Preparation | None = None) -> Callable[[], None]:
        return self._followed.published.subscribe(listener, prepare)

    @property
    def is_controller(self) -> bool:
        return self._role.is_active

    @property
    def controller_epoch(self) -> int | None:
        """The epoch of this broker as the controller, or None while another broker is the controller."""
        return self._role.controller_epoch

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of the session with ZooKeeper."""
        return self._session.meters.samples()

    # --- changes ---

    async def create_topics(
        self, topics_: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> list[TopicResult]:
        """Create topics. A topic that is in ZooKeeper, but not in the image, exists: its deletion is not complete, or
        another program has begun to create it."""

        def decide(image: MetadataImage) -> Decision[list[TopicResult]]:
            known = {topic.name for topic in topics_ if self._has_only_znodes(image, topic.name)}
            wanted = [topic for topic in topics_ if topic.name not in known]
            decision = topics.create_topics(image, self._settings, wanted)
            made = iter(decision.result)
            results = [self._refused(topic.name) if topic.name in known else next(made) for topic in topics_]
            return Decision(decision.records, results)

        return await self._change(decide, validate_only, timeout_ms)

    async def delete_topics(
        self, topics_: Sequence[str | uuid.UUID], *, timeout_ms: int | None = None
    ) -> list[TopicResult]:
        """Delete topics, and return once the controller has deleted their znodes, or the timeout is over: a replica
        whose broker is away delays that."""
        results = await super().delete_topics(topics_, timeout_ms=timeout_ms)
        names = [one.name for one in results if one.name is not None and one.error is ErrorCode.NONE]
        await self._await_removal(names, _DELETION_TIMEOUT_MS if timeout_ms is None else timeout_ms)
        return results

    async def alter_scram_users(
        self, deletions: Sequence[ScramDeletion], upsertions: Sequence[ScramUpsertion]
    ) -> dict[str, Outcome]:
        return await self._change(lambda image: scram_users.alter_scram_users(image, deletions, upsertions, since=0))

    async def update_features(self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False) -> Outcome:
        return Outcome(ErrorCode.UNSUPPORTED_VERSION, "A cluster with ZooKeeper has no features to update.")

    async def alter_partitions(self, alterations: Sequence[PartitionAlteration], /) -> list[AlteredPartition]:
        """Change the in-sync replicas of partitions that this broker leads. Raise ApiError(STALE_BROKER_EPOCH) while
        it is not registered."""
        if self.broker_epoch == NO_BROKER_EPOCH:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, "This broker is not registered in ZooKeeper")

        def decide(image: MetadataImage) -> Decision[list[AlteredPartition]]:
            valid = [self._followed.error_of(one.topic_id) is None for one in alterations]
            made = leaders.alter_partitions(
                image, self._settings, self._setup.node_id, list(compress(alterations, valid))
            )
            results = iter(made.result)
            return Decision(made.records, [next(results) if is_valid else _NOT_ATTEMPTED for is_valid in valid])

        return await self._change(decide)

    async def assign_directories(self, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID], /) -> None:
        """Return at once: ZooKeeper does not have the log directories of replicas."""

    async def report_offline_directories(self, directories: Sequence[uuid.UUID], /) -> None:
        """Return at once; see ``report_offline_replicas``."""

    async def report_cordoned_directories(self, directories: Sequence[uuid.UUID], /) -> None:
        """Return at once: ZooKeeper does not have them."""

    async def report_offline_replicas(self, partitions: Sequence[TopicPartition], /) -> None:
        """Leave the in-sync replicas of partitions whose log directory has failed here."""
        await self._changer.change_valid(
            lambda image: duty_rules.leave(image, self._settings, self._setup.node_id, partitions)
        )

    async def _change(
        self, decide: Callable[[MetadataImage], Decision[T]], validate_only: bool = False, timeout_ms: int | None = None
    ) -> T:
        return await self._changer.change(decide, validate_only=validate_only, timeout_ms=timeout_ms)

    # --- the session ---

    def _note_event(self, event: ZnodeEvent) -> None:
        self._followed.note(event.path)

    def _note_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._reconnected.set()
            return
        self._changer.is_connected.clear()
        if state is SessionState.EXPIRED:
            _log.error("The session with ZooKeeper has expired: this broker is fenced until it has registered again")
            self._registration.forget()
            self._role.resign()
        elif state is SessionState.AUTH_FAILED:
            self._setup.on_failure("ZooKeeper refuses the credentials of this broker")
        elif state is SessionState.DISCONNECTED and not self._is_closed:
            _log.warning("The connection to ZooKeeper is lost. Records are served, and changes wait for it")

    async def _follow(self) -> None:
        """Follow the znodes over all connections."""
        while not self._is_closed:  # a group loses its cancellation if its task fails at the same time
            try:
                if self._reconnected.is_set():
                    self._reconnected.clear()
                    await self._catch_up()
                async with asyncio.TaskGroup() as group:
                    following = group.create_task(self._followed.follow())
                    await self._reconnected.wait()
                    following.cancel()
            except* ZooKeeperError as errors:
                _log.debug("The znodes cannot be followed now: %s", errors.exceptions[0])
                await pause(self._setup.timers, RETRY_BACKOFF_MS)
            except* ZnodeError as errors:
                _log.error("The znodes cannot be read, so nothing can be changed: %s", errors.exceptions[0])
                await pause(self._setup.timers, _INVALID_BACKOFF_MS)

    async def _catch_up(self) -> None:
        """Read all znodes after a new connection, and register again if the session is new."""
        try:
            await self._followed.read_all()
        except (ZooKeeperError, ZnodeError):
            if self._session.state is SessionState.CONNECTED:
                self._reconnected.set()
            raise
        self._changer.is_connected.set()
        if self._has_joined and not self._registration.is_current:
            self._registration.forget()
            self._run(self._register_again())
        _log.info("The znodes are followed again")

    # --- the registration ---

    async def _await_absence(self) -> None:
        timeout_ms = 2 * self._setup.zookeeper.session_timeout_ms
        await self._registration.await_absence(timeout_ms, lambda: self._is_given_up)

    async def _register(self) -> None:
        """Register, and stand for election. The znode of an earlier session may still be there for a moment."""
        await self._await_absence()
        await self._registration.register()
        if self._registration.is_current:
            self._role.stand()

    async def _register_again(self) -> None:
        """Register after the session has expired."""
        while self._registration.is_wanted and not self._registration.is_current:
            try:
                await self._register()
                return
            except ConfigError as error:
                self._setup.on_failure(str(error))
                return
            except TidelogError as error:
                _log.warning("This broker cannot register in ZooKeeper now: %s", error)
                await pause(self._setup.timers, RETRY_BACKOFF_MS)

    # --- parts ---

    def _start_periodic_duties(self) -> None:
        elections = election_tasks(
            self._setup.config, elect_leaderless=self._role.elect_leaderless, balance_leaders=self._role.balance_leaders
        )
        announcements = PeriodicTask(
            name="delete old announcements", interval_ms=ANNOUNCEMENTS_MS, step=self._delete_announcements
        )
        for task in (*elections, announcements):
            running = RunningTask(task, self._setup.timers, self._run)
            running.start()
            self._periodic.append(running)

    async def _delete_announcements(self) -> bool:
        if self._role.is_active:
            await delete_announcements(self._session, self._setup.clock.now_ms())
        return False

    def _has_only_znodes(self, image: MetadataImage, name: str) -> bool:
        has_znode = paths.topic(name) in self._followed.mirror or self._is_being_deleted(name)
        return has_znode and name not in image.topics

    def _refused(self, name: str) -> TopicResult:
        reason = "is marked for deletion" if self._is_being_deleted(name) else "already exists"
        return TopicResult(name=name, error=ErrorCode.TOPIC_ALREADY_EXISTS, message=f"Topic '{name}' {reason}.")

    def _is_being_deleted(self, name: str) -> bool:
        return self._followed.mirror.is_being_deleted(name)

    async def _await_removal(self, names: Sequence[str], timeout_ms: int) -> None:
        deadline_ms = self._setup.timers.monotonic_ms() + timeout_ms
        while any(map(self._is_being_deleted, names)) and self._setup.timers.monotonic_ms() < deadline_ms:
            await pause(self._setup.timers, 10)

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a part until the end. Its error stops the broker."""
        task = self._loop.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(self._part_ended)
        return task

    def _part_ended(self, task: asyncio.Task[None]) -> None:
        if task in self._tasks:
            self._tasks.remove(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("The cluster metadata can no longer be followed", exc_info=error)
            self._setup.on_failure(f"the cluster metadata can no longer be followed: {error}")


def _may_pass(error: TidelogError) -> bool:
    """Return True for the loss of a connection: the same call may succeed over the next one."""
    lost = (ConnectionLostError, SessionExpiredError)
    return isinstance(error, lost) or error_code_of(error) is ErrorCode.REQUEST_TIMED_OUT
