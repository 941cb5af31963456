"""The group coordinator: which shard a group belongs to, and whether this broker has it.

States of a partition of ``__consumer_offsets``, for this broker:

=============  =============================================  ========================================================
state          begins with                                    a request for one of its groups is answered
=============  =============================================  ========================================================
*another's*    the beginning; a resignation                   NOT_COORDINATOR
*loading*      an election                                    COORDINATOR_LOAD_IN_PROGRESS (a heartbeat: fine)
*owned*        the end of its log, read                       by the shard
=============  =============================================  ========================================================

Before ``start`` and after ``stop`` everything is answered COORDINATOR_NOT_AVAILABLE. A partition whose log cannot be
read stays loading. What a crash leaves is the log: members that live are heard of again within their session.
Made and started by the broker when ``__consumer_offsets`` is there, or when a client first asks. Called by:
handlers/groups, the transaction coordinator. Thread rule: the loop's.
Source: Kafka's ``GroupCoordinatorService``, ``CoordinatorRuntime``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tidelog.config.resources.group_settings import GroupSettings
from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.runtime.metrics import Sample
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.groups.consumer.targets import assignor_names
from tidelog.server.groups.group_counts import GroupCounts
from tidelog.server.groups.group_metrics import group_samples
from tidelog.server.groups.image_topics import ImageTopics
from tidelog.server.groups.owned_shard import OwnedShard
from tidelog.server.groups.routing import partition_of
from tidelog.server.groups.settings import CoordinatorSettings, GroupTimeouts
from tidelog.server.groups.shard import Shard
from tidelog.server.metadata.image import MetadataChange
from tidelog.server.node import Node
from tidelog.server.replicas.partition import NO_EPOCH
from tidelog.server.topic_name import GROUP_METADATA_TOPIC
from tidelog.server.topics.internal_topics import partition_count

T = TypeVar("T")


class GroupCoordinator:
    """``topics``: as assignments see them; ``settings``: of the start, none of them changes at run time."""

    def __init__(self, node: Node) -> None:
        self.settings = CoordinatorSettings.of(node.config)
        self.assignors = assignor_names(self.settings.consumer.assignors)
        """On the server's side; the first is the default."""
        self.topics = ImageTopics(lambda: node.metadata.image, lambda: node.metadata.applied_offset)
        self._node = node
        self._partitions: dict[int, OwnedShard] = {}
        self._counts = GroupCounts(node.timers.monotonic_ms)
        self._is_active = False

    def start(self) -> None:
        """Follow elections and changes of topics from now on."""
        self._is_active = True
        self._unsubscribe = self._node.metadata.subscribe(self._on_change)
        self._node.replicas.add_leader_listener(GROUP_METADATA_TOPIC, self.elected, self.resigned)

    def stop(self) -> None:
        """Whoever waits is sent away."""
        self._is_active = False
        self._unsubscribe()
        for number in list(self._partitions):
            self.resigned(number)

    # --- what handlers ask ---

    def partition_of(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that the group belongs to."""
        count = partition_count(GROUP_METADATA_TOPIC, self._node.metadata.image, self._node.config)
        return partition_of(group_id, count)

    def require_consumer_protocol(self) -> None:
        """UNSUPPORTED_VERSION where the broker or the cluster's ``group.version`` does without it."""
        is_offered = "consumer" in self._node.config.texts("group.coordinator.rebalance.protocols")
        if not is_offered or self._node.metadata.image.features.get("group.version", 0) < 1:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)

    def shard_of(self, group_id: str) -> Shard:
        """ApiError by the module's table."""
        if not self._is_active:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        owned = self._partitions.get(self.partition_of(group_id))
        if owned is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if not owned.is_loaded:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return owned.shard

    async def ask(self, group_id: str, question: Callable[[Shard, Callable[[T], None]], None]) -> T:
        """Put ``question`` to the group's shard and wait until it replies. ApiError as ``shard_of``, and its own."""
        answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def reply(answer: T) -> None:
            if not answered.done():
                answered.set_result(answer)

        question(self.shard_of(group_id), reply)
        return await answered

    def loaded_shards(self) -> Iterable[Shard]:
        """Of all groups of this broker. COORDINATOR_LOAD_IN_PROGRESS where some are not known yet."""
        if not self._is_active:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not all(owned.is_loaded for owned in self._partitions.values()):
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [owned.shard for owned in self._partitions.values()]

    def samples(self) -> Iterator[Sample]:
        """Its metrics. Any thread."""
        return group_samples(list(self._partitions.values()), self._counts)

    # --- what others tell ---

    def marker_comes(self, number: int) -> None:
        """A marker will be appended to a partition of ``__consumer_offsets``: what was written before goes first."""
        owned = self._partitions.get(number)
        if owned is not None:
            owned.flush()

    def transaction_completed(self, number: int, producer_id: int, is_commit: bool) -> None:
        """A marker was written to a partition of ``__consumer_offsets``."""
        owned = self._partitions.get(number)
        if owned is not None:
            owned.end_transaction(producer_id, is_commit=is_commit)

    def _on_change(self, change: MetadataChange) -> None:
        changed = self.topics.note(change)
        deleted = {topic.name: topic.id for topic in change.deleted_topics}
        for owned in list(self._partitions.values()):
            if owned.is_loaded and changed:
                owned.shard.look_at_topics(changed)
            if owned.is_loaded and deleted:
                owned.shard.forget_topics(deleted)

    # --- elections ---

    def elected(self, number: int, _leader_epoch: int) -> None:
        """This broker leads a partition of ``__consumer_offsets`` from now on."""
        self.resigned(number)
        owned = OwnedShard(
            number,
            self._node,
            settings=self.settings,
            topics=self.topics,
            timeouts=self._timeouts,
            counts=self._counts,
            on_out_of_step=self._read_again,
        )
        self._partitions[number] = owned
        self._node.spawn(owned.load())

    def resigned(self, number: int) -> None:
        """It leads it no more. Idempotent."""
        owned = self._partitions.pop(number, None)
        if owned is not None:
            owned.give_up()

    def _read_again(self, owned: OwnedShard) -> None:
        """Make its shard anew from the log; nothing where it is not this broker's any more."""
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
