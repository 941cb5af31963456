"""A partition of ``__consumer_offsets`` that this broker leads, from its election to its resignation.

*loading* → *active*, or *failed* → *lost*. While its log is read in a thread nobody asks it; transactions that are
ended meanwhile are noted, for their markers may lie behind where the log is read to. Clients see no difference between
one that has failed, since its log cannot be read, and one that is loading.
Called by: the group coordinator. Thread rule: the loop's.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable

from tidelog.model import TidelogError, TopicPartition
from tidelog.server.groups.group_counts import GroupCounts
from tidelog.server.groups.group_map import GroupMap
from tidelog.server.groups.journal import Topics
from tidelog.server.groups.keyed_timers import KeyedTimers
from tidelog.server.groups.log.loading import load_log
from tidelog.server.groups.log.partition_journal import PartitionJournal
from tidelog.server.groups.offsets.offset_store import OffsetStore
from tidelog.server.groups.settings import CoordinatorSettings, GroupTimeouts
from tidelog.server.groups.shard import Shard
from tidelog.server.groups.shard_context import ShardContext
from tidelog.server.node import Node
from tidelog.server.topic_name import GROUP_METADATA_TOPIC

_log = logging.getLogger(__name__)


class ShardState(enum.StrEnum):
    """The value is the name that Kafka's metrics have for it."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class OwnedShard:
    """``shard`` may be asked when ``is_loaded``."""

    def __init__(
        self,
        number: int,
        node: Node,
        *,
        settings: CoordinatorSettings,
        topics: Topics,
        timeouts: Callable[[str], GroupTimeouts],
        counts: GroupCounts,
        on_out_of_step: Callable[[OwnedShard], None],
    ) -> None:
        """``on_out_of_step``: called when its state is not that of its log, which has to be read again."""
        self.number = number
        self.state = ShardState.LOADING
        self._node = node
        self._settings = settings
        self._counts = counts
        self._partition = node.replicas.partition(TopicPartition(GROUP_METADATA_TOPIC, number))
        self._completed: list[tuple[int, bool]] = []
        self._journal = PartitionJournal(
            self._partition,
            timers=node.timers,
            spawn=node.spawn,
            settings=settings,
            on_out_of_step=lambda: on_out_of_step(self),
        )
        self.shard = Shard(
            ShardContext(
                groups=GroupMap(),
                offsets=OffsetStore(),
                journal=self._journal,
                timers=KeyedTimers(node.timers),
                topics=topics,
                settings=settings,
                timeouts=timeouts,
                counts=counts,
            )
        )
        self._journal.replay = self.shard.replay

    @property
    def is_loaded(self) -> bool:
        return self.state is ShardState.ACTIVE

    async def load(self) -> None:
        """Read the log; afterwards the shard is loaded, or was lost, or an error was told."""
        try:
            with self._counts.loads.measured():
                await self._read()
        except TidelogError as error:
            _log.error("the groups of %s cannot be read: %s", self._partition.topic_partition, error)
            self.state = ShardState.FAILED
            return
        if self._journal.is_lost:
            return
        for producer_id, is_commit in self._completed:
            self.shard.replay.end_transaction(producer_id, is_commit=is_commit)
        self.state = ShardState.ACTIVE
        self.shard.resume()

    async def _read(self) -> None:
        log = self._partition.log
        if log.end_offset > log.log_start_offset:
            await self._node.in_thread(
                load_log,
                log,
                self.shard.replay,
                chunk_bytes=self._settings.load_buffer_bytes,
                is_wanted=lambda: not self._journal.is_lost,
            )

    def flush(self) -> None:
        """Append what was written so far."""
        self._journal.flush()

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker is in the log."""
        if self.is_loaded:
            self.shard.replay.end_transaction(producer_id, is_commit=is_commit)
        else:
            self._completed.append((producer_id, is_commit))

    def give_up(self) -> None:
        """Another broker leads the partition: whoever waits is sent away."""
        self._journal.lose()
        if self.is_loaded:
            self.shard.abandon()
