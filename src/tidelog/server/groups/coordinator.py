"""The group coordinator: finds a group's shard, or raises the error of a group that is not owned here.

States of a partition of ``__consumer_offsets``, for this broker:

=============  =============================================  ========================================================
state          begins with                                    a request for one of its groups
=============  =============================================  ========================================================
*another's*    the start of the broker; a resignation         fails with NOT_COORDINATOR
*loading*      an election                                    fails with COORDINATOR_LOAD_IN_PROGRESS (the Heartbeat
                                                              handler turns it into success)
*owned*        the complete read of its log                   goes to the shard
=============  =============================================  ========================================================

Before ``start`` and after ``stop`` every request fails with COORDINATOR_NOT_AVAILABLE. A partition whose log cannot be
read keeps the errors of *loading*. After a crash the state is rebuilt from the log, and live members send a heartbeat
before their session times out. The broker starts the coordinator when ``__consumer_offsets`` exists, or when a client
first needs it.
Thread rule: the event loop only. Source: Kafka's ``GroupCoordinatorService``, ``CoordinatorRuntime``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tidelog.config.resources.group_settings import GroupSettings
from tidelog.model import TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.runtime.metrics import Sample
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.groups.consumer.targets import assignor_names
from tidelog.server.groups.group_metrics import group_samples
from tidelog.server.groups.owned_shard import OwnedShard
from tidelog.server.groups.shard import Shard
from tidelog.server.groups.state.group_topics import ImageTopics
from tidelog.server.groups.state.settings import CoordinatorSettings, GroupTimeouts
from tidelog.server.groups.state.shard_context import GroupCounts
from tidelog.server.metadata.image import MetadataChange
from tidelog.server.replicas.leading import NO_EPOCH
from tidelog.server.topics.internal_topics import partition_count, partition_of
from tidelog.server.topics.node import Node

T = TypeVar("T")


class GroupCoordinator:
    """``topics`` is the assignments' view of the topics. ``settings`` are read at the start and never change."""

    def __init__(self, node: Node) -> None:
        self.settings = CoordinatorSettings.of(node.config)
        self.assignors = assignor_names(self.settings.consumer.assignors)
        """The names of the server-side assignors. The first one is the default."""
        self.topics = ImageTopics(lambda: node.metadata.image, lambda: node.metadata.applied_offset)
        self._node = node
        self._partitions: dict[int, OwnedShard] = {}
        self._counts = GroupCounts(node.timers.monotonic_ms)
        self._is_active = False

    def start(self) -> None:
        """Begin to follow elections and topic changes."""
        self._is_active = True
        self._unsubscribe = self._node.metadata.subscribe(self._on_change)
        self._node.replicas.add_leader_listener(GROUP_METADATA_TOPIC, self.elected, self.resigned)

    def stop(self) -> None:
        """Resign from all partitions and fail their pending requests."""
        self._is_active = False
        self._unsubscribe()
        for number in list(self._partitions):
            self.resigned(number)

    # --- requests of handlers ---

    def partition_of(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` that the group belongs to."""
        count = partition_count(GROUP_METADATA_TOPIC, self._node.metadata.image, self._node.config)
        return partition_of(group_id, count)

    def require_consumer_protocol(self) -> None:
        """Raise ApiError(UNSUPPORTED_VERSION) if the broker or the cluster's ``group.version`` disables it."""
        is_offered = "consumer" in self._node.config.texts("group.coordinator.rebalance.protocols")
        if not is_offered or self._node.metadata.image.features.get("group.version", 0) < 1:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)

    def shard_of(self, group_id: str) -> Shard:
        """Return the group's shard. Raise ApiError by the module's table."""
        if not self._is_active:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        owned = self._partitions.get(self.partition_of(group_id))
        if owned is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if not owned.is_loaded:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return owned.shard

    async def call_shard(self, group_id: str, operation: Callable[[Shard, Callable[[T], None]], None]) -> T:
        """Pass the group's shard to ``operation`` and wait for the reply. Raise the ApiErrors of both."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def reply(result: T) -> None:
            if not future.done():
                future.set_result(result)

        operation(self.shard_of(group_id), reply)
        return await future

    def loaded_shards(self) -> Iterable[Shard]:
        """Return all shards of this broker. Raise ApiError(COORDINATOR_LOAD_IN_PROGRESS) if one is still loading."""
        if not self._is_active:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not all(owned.is_loaded for owned in self._partitions.values()):
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [owned.shard for owned in self._partitions.values()]

    def shards(self) -> list[OwnedShard]:
        """Return the partitions of ``__consumer_offsets`` that this broker leads, in every state."""
        return list(self._partitions.values())

    def samples(self) -> Iterator[Sample]:
        """Return the coordinator's metrics. Thread rule: any thread."""
        return group_samples(list(self._partitions.values()), self._counts)

    # --- events ---

    def before_marker(self, number: int) -> None:
        """Append a partition's gathered changes, because a transaction marker must follow them in the log."""
        owned = self._partitions.get(number)
        if owned is not None:
            owned.flush()

    def transaction_completed(self, number: int, producer_id: int, is_commit: bool) -> None:
        """End the producer's transaction in a partition of ``__consumer_offsets`` after its marker was written."""
        owned = self._partitions.get(number)
        if owned is not None:
            owned.end_transaction(producer_id, is_commit=is_commit)

    def _on_change(self, change: MetadataChange) -> None:
        changed = self.topics.changed_topic_names(change)
        deleted = {topic.name: topic.id for topic in change.deleted_topics}
        for owned in list(self._partitions.values()):
            if owned.is_loaded and changed:
                owned.shard.mark_topics_changed(changed)
            if owned.is_loaded and deleted:
                owned.shard.delete_offsets_of_topics(deleted)

    # --- elections ---

    def elected(self, number: int, _leader_epoch: int) -> None:
        """Become the leader of a partition of ``__consumer_offsets`` and load its shard."""
        self.resigned(number)
        owned = OwnedShard(
            number,
            self._node,
            settings=self.settings,
            topics=self.topics,
            timeouts=self._timeouts,
            counts=self._counts,
            on_state_diverged=self._reload,
        )
        self._partitions[number] = owned
        self._node.spawn(owned.load())

    def resigned(self, number: int) -> None:
        """Abandon the shard of a partition that this broker no longer leads. Idempotent."""
        owned = self._partitions.pop(number, None)
        if owned is not None:
            owned.resign()

    def _reload(self, owned: OwnedShard) -> None:
        """Rebuild the shard from the log. No-op if this broker is no longer the partition's leader."""
        is_led = self._node.replicas.is_led(TopicPartition(GROUP_METADATA_TOPIC, owned.number))
        if is_led and self._partitions.get(owned.number) is owned:
            self.elected(owned.number, NO_EPOCH)

    def _timeouts(self, group_id: str) -> GroupTimeouts:
        overrides = self._node.metadata.image.settings_of(ResourceType.GROUP, group_id)
        settings = GroupSettings.described(overrides, self._node.config).within_bounds(self._node.config)
        return GroupTimeouts(
            session_timeout_ms=settings.number("consumer.session.timeout.ms"),
            heartbeat_interval_ms=settings.number("consumer.heartbeat.interval.ms"),
            assignment_interval_ms=settings.number("consumer.assignment.interval.ms"),
        )
