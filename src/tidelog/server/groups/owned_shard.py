"""A partition of ``__consumer_offsets`` that this broker leads, from its election to its resignation.

The states are *loading* → *active*, or *failed* → *lost*. A background thread reads the log, and the shard serves no
request meanwhile. Transactions that end during loading are remembered, because their markers may lie after the end of
the read. Clients get the same error from a partition whose log cannot be read (*failed*) as from a loading one.

Loading applies the records in the sequence of the log. Records of a transaction are pending until its marker, and stay
pending if the marker is missing: the transaction coordinator will write it. Memory is bounded by the live state and one
chunk. Loading stops between two chunks if the partition was lost.
Thread rule: the event loop only, except for ``load_log``. Source: Kafka's ``CoordinatorLoaderImpl``.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable

from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC
from tidelog.record.control import ControlType, control_type
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.runtime.timers import KeyedTimers
from tidelog.server.groups.partition_journal import PartitionJournal
from tidelog.server.groups.records.replay import NO_PRODUCER, Replay
from tidelog.server.groups.shard import Shard
from tidelog.server.groups.state.group_map import GroupMap
from tidelog.server.groups.state.group_topics import Topics
from tidelog.server.groups.state.offset_store import OffsetStore
from tidelog.server.groups.state.settings import CoordinatorSettings, GroupTimeouts
from tidelog.server.groups.state.shard_context import GroupCounts, ShardContext
from tidelog.server.topics.coordinator_log import LoggedRecord, apply_records
from tidelog.server.topics.node import Node
from tidelog.storage.log.partition_log import PartitionLog

_log = logging.getLogger(__name__)


class ShardState(enum.StrEnum):
    """The value is the state's name in Kafka's metrics."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class OwnedShard:
    """``shard`` serves requests only if ``is_loaded``."""

    def __init__(
        self,
        number: int,
        node: Node,
        *,
        settings: CoordinatorSettings,
        topics: Topics,
        timeouts: Callable[[str], GroupTimeouts],
        counts: GroupCounts,
        on_state_diverged: Callable[[OwnedShard], None],
    ) -> None:
        """The callback ``on_state_diverged`` runs when the state no longer matches the log."""
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
            on_state_diverged=lambda: on_state_diverged(self),
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
        """Read the log. Afterwards the shard is loaded or lost, or an error was logged."""
        try:
            with self._counts.loads.measured():
                await self._read()
        except TidelogError as error:
            _log.error("%s: the groups cannot be loaded: %s", self._partition.topic_partition, error)
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
        """Append the gathered changes."""
        self._journal.flush()

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply a transaction marker that is in the log. While the shard loads, remember it for later."""
        if self.is_loaded:
            self.shard.replay.end_transaction(producer_id, is_commit=is_commit)
        else:
            self._completed.append((producer_id, is_commit))

    def resign(self) -> None:
        """Abandon the shard and fail its pending requests, because another broker leads the partition."""
        self._journal.resign()
        if self.is_loaded:
            self.shard.resign()


def load_log(log: PartitionLog, replay: Replay, *, chunk_bytes: int, is_wanted: Callable[[], bool]) -> None:
    """Apply the log's records to the state. Raise TidelogError if the log cannot be read. Thread rule: any thread."""

    def apply(found: LoggedRecord) -> bool:
        record, table, row = found
        producer_id = int(table.producer_id[row])
        if table.is_control[row]:
            type_ = control_type(record.key)
            if type_ in (ControlType.COMMIT, ControlType.ABORT):
                replay.end_transaction(producer_id, is_commit=type_ is ControlType.COMMIT)
            return True
        read = None if record.key is None else GroupRecord.read(record.key, record.value)
        if read is not None:
            replay.apply(read, record.offset, producer_id if table.is_transactional[row] else NO_PRODUCER)
        return read is not None

    apply_records(log, apply, chunk_bytes=chunk_bytes, is_wanted=is_wanted)
