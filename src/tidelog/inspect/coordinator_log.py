"""Transaction coordinators' state, read from ``__transaction_state`` partitions of log directories.

The newest record of a transactional id counts, and a null value removes the id. A transactional id belongs to one
partition, but a producer id does not show which one. So a missing producer is unknown to the coordinators only if all
partitions of the topic were read (``is_whole``). The cluster metadata give the number of partitions.

The states of a transaction are: Empty -> Ongoing -> PrepareCommit or PrepareAbort (decided, the markers are being
written) -> CompleteCommit or CompleteAbort. An expired transactional id is removed.

The module only reads, several partitions in parallel. Memory grows with the number of transactional ids. Source:
Kafka's ``TransactionLog``, ``TransactionState`` (KIP-98, KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import TRANSACTION_STATE_TOPIC
from tidelog.record.internal_records.transaction_record import record_of, transactional_id_of
from tidelog.record.rows import iter_records
from tidelog.runtime.progress import Advance
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.view.column_stream import ColumnChoice, column_chunks
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import each_partition
from tidelog.storage.log.view.row_stream import ReadRange, counted
from tidelog.storage.manager.metadata.topic_metadata import read_topic_metadata

_FINISHED = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
_NO_PARTITIONS = frozenset[TopicPartition]()
"""The set that all transactional ids without partitions share: each empty set needs 200 bytes."""
_CHOICE = ColumnChoice(headers=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalId:
    """The newest record of a transactional id. Times are in ms."""

    name: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    partitions: frozenset[TopicPartition]
    """The partitions in the transaction that have no marker yet."""
    start_timestamp: int | None
    """The start of the ongoing or last transaction. None if there was none."""
    last_update_timestamp: int | None
    source: TopicPartition
    """The ``__transaction_state`` partition that holds the record. ``source_offset`` is the record's offset there."""
    source_offset: int

    def awaits_marker(self, partition: TopicPartition) -> bool:
        """Return True if the coordinator still has to write this partition's marker."""
        return self.state not in _FINISHED and partition in self.partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLog:
    """``undecoded`` counts records of unknown types or versions, and records that fail to decode. ``errors`` holds the
    errors of partitions."""

    cluster_id: str | None = None
    ids: tuple[TransactionalId, ...] = ()
    partitions: frozenset[int] = frozenset()
    """The partitions that were read completely."""
    partition_count: int | None = None
    """None if the cluster metadata are not in this directory."""
    undecoded: int = 0
    errors: tuple[TidelogError, ...] = ()
    undecoded_at: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The number of these records by partition, and the offset of the first one."""
    _by_producer: Mapping[int, TransactionalId] | None = field(default=None, init=False, repr=False, compare=False)
    """Made on first use: most directories have no open transaction."""

    @property
    def is_whole(self) -> bool:
        """True if a producer missing from this log is unknown to every coordinator of the cluster."""
        return (
            self.partition_count is not None
            and self.partitions >= frozenset(range(self.partition_count))
            and not self.undecoded
            and not self.errors
        )

    def of_producer(self, producer_id: int) -> TransactionalId | None:
        found = self._by_producer
        if found is None:
            found = {known.producer_id: known for known in reversed(self.ids)}
            object.__setattr__(self, "_by_producer", found)  # whole, because several threads may call this
        return found.get(producer_id)


def read_coordinator_log(
    fs: FileSystem, path: Path, *, threads: int | None = None, advance: Advance = lambda _bytes: None
) -> CoordinatorLog:
    """Read the coordinators' records of one log directory. The result is empty if it has no ``__transaction_state``."""
    fs = ReadOnlyFileSystem(fs)

    def read(view: LogView, partition: TopicPartition, tell: Advance) -> _Found:
        found = _Found(partition, {})
        try:
            _read_partition(view, found, tell)
        except TidelogError as error:
            found.error = error
        return found

    parts = each_partition(fs, path, read, topic=TRANSACTION_STATE_TOPIC, threads=threads, advance=advance)
    replicas = read_topic_metadata(fs, path).replicas
    count = sum(partition.topic == TRANSACTION_STATE_TOPIC for partition in replicas)
    return CoordinatorLog(
        cluster_id=_cluster_id(fs, path),
        ids=tuple(known for part in parts for known in part.ids.values()),
        partitions=frozenset(part.source.partition for part in parts if part.error is None),
        partition_count=count or None,
        undecoded=sum(part.undecoded for part in parts),
        errors=tuple(part.error for part in parts if part.error is not None),
        undecoded_at={
            part.source: (part.undecoded, part.first_undecoded)
            for part in parts
            if part.undecoded and part.first_undecoded is not None
        },
    )


def join_logs(logs: Iterable[CoordinatorLog]) -> CoordinatorLog:
    """Merge the logs of several log directories of one cluster. The replica with the higher offset wins."""
    newest: dict[str, TransactionalId] = {}
    found = list(logs)
    for log in found:
        for known in log.ids:
            before = newest.get(known.name)
            if before is None or before.source_offset < known.source_offset:
                newest[known.name] = known
    return CoordinatorLog(
        cluster_id=found[0].cluster_id if found else None,
        ids=tuple(newest.values()),
        partitions=frozenset[int]().union(*(log.partitions for log in found)),
        partition_count=max((log.partition_count for log in found if log.partition_count is not None), default=None),
        undecoded=sum(log.undecoded for log in found),
        errors=tuple(error for log in found for error in log.errors),
    )


@dataclass(slots=True)
class _Found:
    source: TopicPartition
    ids: dict[str, TransactionalId]
    undecoded: int = 0
    first_undecoded: int | None = None
    error: TidelogError | None = None

    def count_undecoded(self, offset: int) -> None:
        self.undecoded += 1
        self.first_undecoded = offset if self.first_undecoded is None else self.first_undecoded


def _read_partition(view: LogView, found: _Found, advance: Advance) -> None:
    # Read to the log end: a decision holds even if the coordinator's record is not replicated yet.
    wanted = ReadRange(start=view.log_start, end=view.log_end)
    stream = view.batches(wanted, on_lost=lambda _reason: None)  # removed records count no longer
    for chunk in column_chunks(counted(stream, advance), _CHOICE, wanted.start, wanted.end):
        for record in iter_records(chunk.columns):
            if record.key is not None:
                _apply(found, record.offset, record.key, record.value)


def _apply(found: _Found, offset: int, key: bytes, value: bytes | None) -> None:
    try:
        name = transactional_id_of(key)
        if name is None:
            found.count_undecoded(offset)
            return
        found.ids.pop(name, None)
        if value is None:
            return
        record = record_of(value, allow_unknown_state=True)
    except TidelogError:
        found.count_undecoded(offset)
        return
    found.ids[name] = TransactionalId(
        name=name,
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        state=record.state.label,
        timeout_ms=record.timeout_ms,
        partitions=record.partitions or _NO_PARTITIONS,
        start_timestamp=record.start_ms if record.start_ms >= 0 else None,
        last_update_timestamp=record.last_update_ms if record.last_update_ms >= 0 else None,
        source=found.source,
        source_offset=offset,
    )


def _cluster_id(fs: FileSystem, path: Path) -> str | None:
    meta = MetaProperties.read_or_none(fs, path / META_PROPERTIES_FILE)
    return None if meta is None else meta.cluster_id
