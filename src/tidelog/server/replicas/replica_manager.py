"""The partitions that this broker serves. It applies the changes of the cluster metadata one by one.

=====================================  =============================================================================
change of the metadata                 effect
=====================================  =============================================================================
a partition gets a replica here        ``prepare`` creates a missing log in a background thread, before any client
                                       can read the partition; ``follow`` makes this broker the leader or not
a partition changes                    its leader, epoch and in-sync replicas are updated
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from tidelog.model import StorageError, TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.shortened_text import shortened
from tidelog.replication import AlteredPartition, IsrProposal
from tidelog.runtime.executor import InThread, Spawn
from tidelog.runtime.timers import Timers
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.image import MetadataChange, MetadataImage
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.requests import AlteredPartition as CommittedAlteration
from tidelog.server.metadata.requests import PartitionAlteration
from tidelog.server.replicas.leader_listeners import LeaderListeners, OnElected, OnResigned
from tidelog.server.replicas.partition import Partition
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager

_log = logging.getLogger(__name__)


class Metadata(Protocol):
    """The part of ``ClusterMetadata`` that the replica manager uses."""

    @property
    def image(self) -> MetadataImage: ...
    async def assign_directories(self, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID]) -> None: ...
    async def report_offline_directories(self, directories: Sequence[uuid.UUID]) -> None: ...
    async def alter_partitions(self, alterations: Sequence[PartitionAlteration]) -> list[CommittedAlteration]: ...


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
    def __init__(
        self,
        *,
        node_id: int,
        logs: LogManager,
        metadata: Metadata,
        timers: Timers,
        in_thread: InThread,
        spawn: Spawn,
    ) -> None:
        """Create the manager; it serves nothing before ``start``."""
        self.logs = logs
        self._node_id = node_id
        self._metadata = metadata
        self._timers = timers
        self._in_thread = in_thread
        self._spawn = spawn
        self._partitions: dict[TopicPartition, Partition] = {}
        self._by_id: dict[tuple[uuid.UUID, int], Partition] = {}
        self._brokers = _BrokersOfImage(metadata)
        self._listeners = LeaderListeners()
        self._latest_change: asyncio.Task[None] | None = None
        """The task that carries out the latest change."""

    async def start(self) -> None:
        """Serve every replica that the metadata assigns to this broker. Every later change must go through
        ``follow``."""
        replicas = list(self._replicas_here())
        await self._create_missing_logs(replicas)
        self._serve(replicas)

    async def prepare(self, change: MetadataChange) -> None:
        """Create the logs of a change that is not in the image yet."""
        await self.settled()
        await self._create_missing_logs(list(self._changed(change)))

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
        self._latest_change = self._spawn(
            self._apply_in_background(change, [partition.topic_partition for partition in gone])
        )
        return self._latest_change

    def directory_failed(self, directory_id: uuid.UUID | None) -> None:
        """Check the delayed operations of all partitions, and report the log directory to the controller."""
        for partition in self._partitions.values():
            partition.check_delayed()
        if directory_id is not None:
            self._spawn(self._report_failure(directory_id))

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
        changed = [resource.name for resource in change.configs if resource.type is ResourceType.TOPIC]
        if changed:
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

    async def _create_missing_logs(self, replicas: Iterable[_LocalReplica]) -> None:
        logs = [(self.logs.log(replica.topic_partition), replica) for replica in replicas]
        missing = [replica for log, replica in logs if log is None or log.topic_id is None]
        if missing:
            await self._in_thread(self._create_logs, missing)

    def _serve(self, replicas: Iterable[_LocalReplica]) -> None:
        """Serve these replicas, whose logs exist, and report misplaced ones to the controller."""
        for replica in replicas:
            self._update(replica)
        misplaced = self._misplaced(replicas)
        if misplaced:
            self._spawn(self._metadata.assign_directories(misplaced))

    async def _report_failure(self, directory_id: uuid.UUID) -> None:
        """Report a failed log directory to the controller. Replicas that were moved out of it are assigned to their new
        directories first, or the controller would count them as lost."""
        misplaced = self._misplaced(self._replicas_here())
        if misplaced:
            await self._metadata.assign_directories(misplaced)
        await self._metadata.report_offline_directories([directory_id])

    def _misplaced(self, replicas: Iterable[_LocalReplica]) -> dict[tuple[uuid.UUID, int], uuid.UUID]:
        """Return the log directory ids of replicas that are not in the directory that the metadata has for them."""
        ids = {directory.path: directory.id for directory in self.logs.online}
        found = {}
        for replica in replicas:
            log = self.logs.log(replica.topic_partition)
            directory_id = None if log is None else ids.get(log.directory.parent)
            if directory_id is not None and directory_id != replica.state.directory_of(self._node_id):
                found[replica.topic_id, replica.topic_partition.partition] = directory_id
        return found

    def _update(self, replica: _LocalReplica) -> None:
        partition = self._by_id.get((replica.topic_id, replica.topic_partition.partition))
        if partition is None:
            partition = Partition(
                replica.topic_partition,
                replica.topic_id,
                node_id=self._node_id,
                logs=self.logs,
                timers=self._timers,
                brokers=self._brokers,
                propose=lambda led, proposal: self._spawn(self._alter_partition(led, proposal)),
            )
            self._partitions[replica.topic_partition] = partition
            self._by_id[replica.topic_id, replica.topic_partition.partition] = partition
        try:
            is_new_leader = partition.update(replica.state)
        except StorageError as error:
            _log.error("This broker cannot lead %s: %s", partition.topic_partition, error)
            return
        if is_new_leader:
            self._listeners.elected(partition)
        elif not partition.is_leading:
            self._listeners.resigned(partition)

    async def _alter_partition(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send a proposal to the controller. If that fails, it stays pending until newer metadata arrives."""
        alteration = PartitionAlteration(
            topic_id=partition.topic_id,
            partition=partition.topic_partition.partition,
            isr=sorted(proposal.broker_ids),
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
        )
        try:
            (altered,) = await self._metadata.alter_partitions([alteration])
        except TidelogError as error:
            _log.error("Cannot change the in-sync replicas of %s: %s", partition.topic_partition, error)
            return
        response = AlteredPartition(error_code=altered.outcome.error)
        if altered.state is not None:
            state = altered.state
            response = AlteredPartition(
                leader_epoch=state.leader_epoch, partition_epoch=state.partition_epoch, isr=state.isr
            )
        partition.altered(proposal, response)

    def _remove(self, partition: Partition) -> None:
        del self._by_id[partition.topic_id, partition.topic_partition.partition]
        if self._partitions.get(partition.topic_partition) is partition:
            del self._partitions[partition.topic_partition]
        partition.mark_deleted()
        self._listeners.resigned(partition)

    def _update_configs(self, topics: list[str]) -> None:
        """Update the log configs in a background thread: the log manager's lock may be taken for long."""
        for topic in topics:
            self.logs.update_topic_config(topic)

    def _create_logs(self, replicas: list[_LocalReplica]) -> None:
        """Create missing logs and write missing topic ids, in a background thread."""
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
                _log.error("Cannot create the log of %s: %s", replica.topic_partition, error)
        self.logs.sync_directories()

    def _delete_logs(self, gone: list[TopicPartition]) -> None:
        """Delete logs in a background thread."""
        for topic_partition, error in self.logs.delete_all(gone).items():
            _log.error("Cannot delete the log of %s: %s", topic_partition, error)


def is_stray(image: MetadataImage, broker_id: int, log: PartitionLog) -> bool:
    """Return True if the metadata does not place the log on this broker. It is set aside then and not served.

    A topic id reaches the disk before any record. So a log without an id and without records is the log of the topic
    with its name, unless its leader epochs are ahead. With records it is stray. Kafka treats all logs without an id as
    stray and creates them again (``LogManager.isStrayReplica``).
    """
    name = TopicPartition.from_directory_name(log.directory.name)
    topic = image.topics.get(name.topic) if log.topic_id is None else image.topics_by_id.get(log.topic_id)
    state = None if topic is None else topic.partitions.get(name.partition)
    if state is None or broker_id not in state.replicas:
        return True
    if log.topic_id is not None:
        return False
    return log.end_offset > 0 or (log.epochs.latest or 0) > state.leader_epoch
