"""The partitions that this broker serves. It applies the changes of the cluster metadata one by one.

=====================================  =============================================================================
change of the metadata                 effect
=====================================  =============================================================================
a partition gets a replica here        ``prepare`` creates a missing log in a background thread, before any client
                                       can read the partition; ``follow`` makes this broker the leader, or a follower
                                       with a fetcher
a partition changes                    its leader, epoch and in-sync replicas are updated
a partition gets another leader epoch  ``prepare`` ends appends and fetches of the epoch before; ``follow`` begins the
                                       new one
a broker registers or leaves           partitions that it leads are fetched, or no longer
a topic is deleted, or the replica     requests fail at once; the log is deleted in a background thread
moves to another broker
a topic's configs change               its logs use the new configs
=====================================  =============================================================================

A change waits for the background work of the previous one, so a topic can be deleted and created again. A log that
cannot be created or opened counts as one in an offline log directory: KAFKA_STORAGE_ERROR. After a crash, logs of
deleted topics are strays for the log manager. The next start creates missing logs, and writes missing topic ids.
Thread rule: the event loop only. Source: Kafka's ``ReplicaManager``, ``BrokerMetadataPublisher``.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.model import StorageError, TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.shortened_text import shortened
from tidelog.runtime.executor import InThread, Spawn
from tidelog.runtime.metrics import MetricRegistry
from tidelog.runtime.timers import TimerHandle, Timers
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.image import MetadataChange, MetadataImage
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.requests import AlteredPartition as CommittedAlteration
from tidelog.server.metadata.requests import PartitionAlteration
from tidelog.server.replicas.directory_reports import DirectoryMetadata, DirectoryReports, ReplicaPlace
from tidelog.server.replicas.isr_proposals import IsrProposals
from tidelog.server.replicas.leader_listeners import LeaderListeners, OnElected, OnResigned
from tidelog.server.replicas.partition import Partition, PartitionSetup
from tidelog.server.replicas.replication_meters import ReplicationMeters
from tidelog.server.replicas.replication_quota import QuotaSetup, ReplicationQuota, Side
from tidelog.server.replicas.replication_settings import ReplicationSettings
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager

if TYPE_CHECKING:
    from tidelog.server.links.broker_links import BrokerLinks
    from tidelog.server.replicas.fetcher_manager import FetcherManager

_log = logging.getLogger(__name__)


class Metadata(DirectoryMetadata, Protocol):
    """The part of ``ClusterMetadata`` that the replica manager uses."""

    @property
    def image(self) -> MetadataImage: ...
    @property
    def broker_epoch(self) -> int: ...
    async def alter_partitions(self, alterations: Sequence[PartitionAlteration]) -> list[CommittedAlteration]: ...
    async def report_offline_replicas(self, partitions: Sequence[TopicPartition], /) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaManagerSetup:
    node_id: int
    logs: LogManager
    metadata: Metadata
    timers: Timers
    in_thread: InThread
    spawn: Spawn
    links: Callable[[], BrokerLinks]
    """Returns the connections to other brokers. It is called with the first partition that has another leader."""
    settings: ReplicationSettings = field(default_factory=ReplicationSettings)
    fetchers: Callable[[], int] = lambda: 1
    """Returns the current ``num.replica.fetchers``."""
    metrics: MetricRegistry = field(default_factory=MetricRegistry)


class _LocalReplica(NamedTuple):
    """A replica that the metadata assigns to this broker. ``is_new``: the partition did not exist before."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    state: PartitionState
    is_new: bool


class _BrokersOfImage:
    """The brokers in the metadata, as the in-sync replicas see them."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def active_epoch(self, broker_id: int, /) -> int | None:
        broker = self._metadata.image.brokers.get(broker_id)
        return None if broker is None or broker.is_fenced else broker.epoch

    def is_shutting_down(self, broker_id: int, /) -> bool:
        broker = self._metadata.image.brokers.get(broker_id)
        return broker is not None and broker.in_controlled_shutdown


class ReplicaManager:
    def __init__(self, setup: ReplicaManagerSetup) -> None:
        """Create the manager; it serves nothing before ``start``."""
        self.logs = setup.logs
        self.meters = ReplicationMeters(setup.metrics)
        self._setup = setup
        quota = QuotaSetup(
            node_id=setup.node_id,
            settings_of=lambda kind, name: setup.metadata.image.settings_of(kind, name),
            now_ms=setup.timers.monotonic_ms,
            windows=setup.settings.quota_windows,
            window_ms=setup.settings.quota_window_ms,
        )
        self.leader_quota, self.follower_quota = (ReplicationQuota(side, quota) for side in Side)
        self._node_id = setup.node_id
        self._metadata = setup.metadata
        self._in_thread = setup.in_thread
        self._spawn = setup.spawn
        self._reports = DirectoryReports(setup.logs, setup.metadata)
        self._partitions: dict[TopicPartition, Partition] = {}
        self._by_id: dict[tuple[uuid.UUID, int], Partition] = {}
        self._proposals = IsrProposals(
            setup.metadata.alter_partitions,
            self._by_id.get,
            timers=setup.timers,
            spawn=setup.spawn,
            note_failure=self.meters.failed_isr_updates.mark,
        )
        self._partition_setup = PartitionSetup(
            node_id=setup.node_id,
            logs=setup.logs,
            timers=setup.timers,
            brokers=_BrokersOfImage(setup.metadata),
            propose=self._proposals.submit,
            lag_time_max_ms=setup.settings.lag_time_max_ms,
            backoff_ms=setup.settings.fetch_backoff_ms,
            note_isr=self.meters.note_isr,
            transaction_max_timeout_ms=setup.settings.transaction_max_timeout_ms,
        )
        self._lag_timer: TimerHandle | None = None
        self.fetchers: FetcherManager | None = None
        """The fetchers; None before this broker follows a partition."""
        self._listeners = LeaderListeners()
        self._log_errors: dict[TopicPartition, str] = {}
        """The reasons why replicas have no log. Each change of the replica tries again."""
        self._latest_change: asyncio.Task[None] | None = None
        """The task that carries out the latest change."""

    async def start(self) -> None:
        """Serve every replica that the metadata assigns to this broker. Every later change must go through
        ``follow``."""
        replicas = list(self._replicas_here())
        await self._create_missing_logs(replicas)
        self._serve(replicas)

    async def prepare(self, change: MetadataChange) -> None:
        """Create the logs of a change that is not in the image yet, and end the writes of leaderships that it ends."""
        await self.settled()
        await self._create_missing_logs(list(self._changed(change)))
        writing = [partition for partition in self._no_longer_led(change) if partition.refuse_appends()]
        await asyncio.gather(*(partition.hand_over() for partition in writing))
        if self.fetchers is not None:
            await self.fetchers.release(self._no_longer_followed(change))

    def follow(self, change: MetadataChange) -> asyncio.Task[None]:
        """Apply a change that is now in the image. The task ends when its background work is done."""
        gone = [
            partition
            for (topic_id, number), delta in change.partitions.items()
            if (partition := self._by_id.get((topic_id, number))) and not self._is_here(delta.after)
        ]
        for partition in gone:
            self._remove(partition)
        self._serve(list(self._changed(change)))
        topics = _configured_topics(change)
        self.leader_quota.topics_changed(topics)
        self.follower_quota.topics_changed(topics)
        if change.brokers and self.fetchers is not None:
            self.fetchers.brokers_changed()
        self._latest_change = self._spawn(
            self._apply_in_background(change, [partition.topic_partition for partition in gone])
        )
        return self._latest_change

    async def stop(self) -> None:
        """End all fetches. The logs do not change after that."""
        if self._lag_timer is not None:
            self._lag_timer.cancel()
        if self.fetchers is not None:
            await self.fetchers.close()
        self.meters.close()

    def directory_failed(self, directory_id: uuid.UUID | None) -> None:
        """End the fetches of offline replicas, check the delayed operations of all partitions, and report the log
        directory to the controller."""
        for partition in self._partitions.values():
            if self.fetchers is not None and not partition.is_online:
                self.fetchers.remove(partition)
            partition.check_delayed()
        if directory_id is not None:
            self._spawn(self._reports.report_failure(directory_id, self._places(self._replicas_here())))
        offline = [name for name, partition in self._partitions.items() if not partition.is_online]
        self._spawn(self._metadata.report_offline_replicas(offline))

    def check_directory(self, topic_partition: TopicPartition) -> None:
        """Report the log directory of a replica if the metadata has another one, for example that of a cancelled
        move."""
        state = self._metadata.image.partition(topic_partition)
        partition = self._partitions.get(topic_partition)
        if state is not None and partition is not None:
            self._report_misplaced([_LocalReplica(topic_partition, partition.topic_id, state, is_new=False)])

    def move_caught_up(self, topic_partition: TopicPartition, directory_id: uuid.UUID, end: Callable[[], None]) -> None:
        """Report the new log directory of a move that has caught up, and let the move end then. A replica that is no
        longer here has no move."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            replica = ReplicaPlace(topic_partition, partition.topic_id, directory_id)
            self._spawn(self._reports.end_move(replica, directory_id, end))

    async def settled(self) -> None:
        """Return once every change so far is carried out. A change waits for the previous one."""
        if self._latest_change is not None:
            await asyncio.wait((self._latest_change,))

    # --- partitions ---

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """Return the partition. Raise ApiError(UNKNOWN_TOPIC_OR_PARTITION) if it does not exist, and
        NOT_LEADER_OR_FOLLOWER if it is not served here."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            return partition
        if self._metadata.image.partition(topic_partition) is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {shortened(str(topic_partition))} does not exist"
            )
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic_partition} is not on broker {self._node_id}")

    def find(self, topic_partition: TopicPartition) -> Partition | None:
        """Return the partition, or None if it is not served here."""
        return self._partitions.get(topic_partition)

    def by_topic_id(self, topic_id: uuid.UUID | None, number: int) -> Partition:
        """Return the partition as ``partition`` does. Raise ApiError(UNKNOWN_TOPIC_ID) if the topic id is unknown."""
        topic = None
        if topic_id is not None:
            partition = self._by_id.get((topic_id, number))
            if partition is not None:
                return partition
            topic = self._metadata.image.topics_by_id.get(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
        return self.partition(TopicPartition(topic.name, number))

    def throttles(self, partition: Partition, replica_id: int) -> bool:
        """Return True if a follower must wait for the leader's quota: it is throttled, and it is out of sync."""
        quota = self.leader_quota
        return (
            quota.is_throttled(partition.topic_partition)
            and replica_id not in partition.in_sync.isr
            and quota.is_exceeded
        )

    def is_led(self, topic_partition: TopicPartition) -> bool:
        """Return True if this broker leads the partition and the listeners were notified."""
        return self._listeners.is_led(topic_partition)

    def partitions(self) -> Iterable[Partition]:
        return self._partitions.values()

    def add_leader_listener(self, topic: str, on_elected: OnElected, on_resigned: OnResigned) -> None:
        """Add a listener: see ``LeaderListeners``. When ``on_elected`` is called, the log exists."""
        self._listeners.add(topic, on_elected, on_resigned)

    # --- internals ---

    async def _apply_in_background(self, change: MetadataChange, gone: list[TopicPartition]) -> None:
        if changed := _configured_topics(change):
            await self._in_thread(self._update_configs, changed)
        if gone:
            await self._in_thread(self._delete_logs, gone)

    def _is_here(self, state: PartitionState | None) -> bool:
        return state is not None and self._node_id in state.replicas

    def _replicas_here(self) -> Iterator[_LocalReplica]:
        for topic, number, state in self._metadata.image.partitions():
            if self._is_here(state):
                yield _LocalReplica(TopicPartition(topic.name, number), topic.id, state, is_new=False)

    def _changed(self, change: MetadataChange) -> Iterator[_LocalReplica]:
        """Yield the replicas on this broker that the change creates or updates. The image may not have it yet."""
        names = {topic.id: topic.name for topic in change.created_topics}
        for (topic_id, number), delta in change.partitions.items():
            if delta.after is not None and self._is_here(delta.after):
                name = names.get(topic_id) or self._metadata.image.topics_by_id[topic_id].name
                yield _LocalReplica(TopicPartition(name, number), topic_id, delta.after, is_new=delta.before is None)

    def _no_longer_led(self, change: MetadataChange) -> Iterator[Partition]:
        """Yield the partitions that this broker leads and that the change gives to another leader, or to none."""
        for (topic_id, number), delta in change.partitions.items():
            partition = self._by_id.get((topic_id, number))
            leads_on = delta.after is not None and delta.after.leader == self._node_id
            if partition is not None and partition.is_leading and not leads_on:
                yield partition

    def _no_longer_followed(self, change: MetadataChange) -> Iterator[Partition]:
        """Yield the partitions that follow in a leader epoch which the change ends."""
        for (topic_id, number), delta in change.partitions.items():
            partition = self._by_id.get((topic_id, number))
            if partition is not None and (delta.after is None or delta.after.leader_epoch != partition.leader_epoch):
                yield partition

    async def _create_missing_logs(self, replicas: Iterable[_LocalReplica]) -> None:
        logs = [(self.logs.log(replica.topic_partition), replica) for replica in replicas]
        missing = [replica for log, replica in logs if log is None or log.topic_id is None]
        if missing:
            await self._in_thread(self._create_logs, missing)

    def _serve(self, replicas: Iterable[_LocalReplica]) -> None:
        """Serve these replicas, whose logs exist, and report misplaced ones to the controller."""
        followers = [partition for replica in replicas if (partition := self._update(replica)).is_following]
        fetched = [partition for partition in followers if partition.is_online]
        if fetched:
            self._fetcher_manager().follow(fetched)
        self._report_misplaced(replicas)

    def _report_misplaced(self, replicas: Iterable[_LocalReplica]) -> None:
        misplaced = self._reports.misplaced(self._places(replicas))
        if misplaced:
            self._spawn(self._reports.report(misplaced))

    def _places(self, replicas: Iterable[_LocalReplica]) -> list[ReplicaPlace]:
        return [
            ReplicaPlace(one.topic_partition, one.topic_id, one.state.directory_of(self._node_id)) for one in replicas
        ]

    def _fetcher_manager(self) -> FetcherManager:
        """Return the fetchers. Their modules are imported by the first follower: a broker that runs alone starts
        faster without them."""
        if self.fetchers is None:
            from tidelog.server.replicas.fetcher_manager import FetcherManager, FetcherManagerSetup

            setup = self._setup
            self.fetchers = FetcherManager(
                FetcherManagerSetup(
                    node_id=setup.node_id,
                    logs=setup.logs,
                    links=setup.links(),
                    image=lambda: setup.metadata.image,
                    broker_epoch=lambda: setup.metadata.broker_epoch,
                    fetchers=setup.fetchers,
                    settings=setup.settings,
                    timers=setup.timers,
                    in_thread=setup.in_thread,
                    spawn=setup.spawn,
                    quota=self.follower_quota,
                    meters=self.meters,
                    metrics=setup.metrics,
                )
            )
        return self.fetchers

    def _update(self, replica: _LocalReplica) -> Partition:
        """Apply the metadata's state to a partition, and return it."""
        partition = self._by_id.get((replica.topic_id, replica.topic_partition.partition))
        if partition is None:
            partition = Partition(replica.topic_partition, replica.topic_id, self._partition_setup)
            self._partitions[replica.topic_partition] = partition
            self._by_id[replica.topic_id, replica.topic_partition.partition] = partition
        try:
            is_new_leader = partition.update(replica.state)
        except StorageError as error:
            _log.error("This broker cannot lead %s: %s", partition.topic_partition, error)
            return partition
        if len(partition.replicas) > 1:
            self._check_lag_later()
        if is_new_leader:
            self._listeners.elected(partition)
        elif not partition.is_leading:
            self._listeners.resigned(partition)
        return partition

    def _check_lag_later(self) -> None:
        """Check the lag of followers every half of ``replica.lag.time.max.ms``, once a partition has followers."""

        def check() -> None:
            for partition in self._partitions.values():
                partition.check_lag()
            self._lag_timer = None
            self._check_lag_later()

        if self._lag_timer is None:
            delay_ms = max(1, self._setup.settings.lag_time_max_ms // 2)
            self._lag_timer = self._setup.timers.call_later(delay_ms, check)

    def _remove(self, partition: Partition) -> None:
        del self._by_id[partition.topic_id, partition.topic_partition.partition]
        if self._partitions.get(partition.topic_partition) is partition:
            del self._partitions[partition.topic_partition]
        if self.fetchers is not None:
            self.fetchers.remove(partition)
        partition.mark_deleted()
        self._log_errors.pop(partition.topic_partition, None)
        self._listeners.resigned(partition)

    def _update_configs(self, topics: list[str]) -> None:
        """Update the log configs in a background thread: the log manager's lock may be taken for long."""
        for topic in topics:
            self.logs.update_topic_config(topic)

    def _create_logs(self, replicas: list[_LocalReplica]) -> None:
        """Create missing logs and write missing topic ids, in a background thread. An error that persists, such as an
        offline log directory, is logged once."""
        for replica in replicas:
            directory_id = replica.state.directory_of(self._node_id)
            known = self.logs.directory_of(directory_id) is not None
            try:
                self.logs.get_or_create(
                    replica.topic_partition,
                    is_new=replica.is_new,
                    topic_id=replica.topic_id,
                    directory_id=directory_id if known else None,
                    syncs=False,
                )
            except TidelogError as error:
                if self._log_errors.get(replica.topic_partition) != str(error):
                    self._log_errors[replica.topic_partition] = str(error)
                    _log.error("Cannot create the log of %s: %s", replica.topic_partition, error)
            else:
                self._log_errors.pop(replica.topic_partition, None)
        self.logs.sync_directories()

    def _delete_logs(self, gone: list[TopicPartition]) -> None:
        """Delete logs in a background thread."""
        for topic_partition, error in self.logs.delete_all(gone).items():
            _log.error("Cannot delete the log of %s: %s", topic_partition, error)


def _configured_topics(change: MetadataChange) -> list[str]:
    """Return the topics whose configs change, or begin or end with the topic."""
    changed = {resource.name for resource in change.configs if resource.type is ResourceType.TOPIC}
    return sorted(changed | {topic.name for topic in (*change.created_topics, *change.deleted_topics)})


def is_stray(image: MetadataImage, broker_id: int, log: PartitionLog, *, is_with_zookeeper: bool = False) -> bool:
    """Return True if the metadata does not place the log on this broker. It is set aside then and not served.

    A topic id reaches the disk before any record. So a log without an id and without records is the log of the topic
    with its name, unless its leader epochs are ahead. With records it is stray. Kafka treats all logs without an id as
    stray and creates them again (``LogManager.isStrayReplica``). Brokers with ZooKeeper made logs without ids before
    Kafka 2.8, so there records make no difference (KIP-516).
    """
    name = TopicPartition.from_directory_name(log.directory.name)
    topic = image.topics.get(name.topic) if log.topic_id is None else image.topics_by_id.get(log.topic_id)
    state = None if topic is None else topic.partitions.get(name.partition)
    if state is None or broker_id not in state.replicas:
        return True
    if log.topic_id is not None:
        return False
    has_records = log.end_offset > 0 and not is_with_zookeeper
    return has_records or (log.epochs.latest or 0) > state.leader_epoch
