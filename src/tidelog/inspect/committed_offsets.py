"""The committed offsets of groups, read from the ``__consumer_offsets`` partitions of a log directory.

The newest record of a key counts, and a null value removes the key. Offsets committed in a transaction count only after
the commit: those of aborted and of open transactions are left out. A read_committed read would not suffice: it ends at
the last stable offset, so it hides the commits of other groups after an open transaction. If a key has two records, the
later offset wins, wherever the transaction marker lies, as in Kafka's ``OffsetMetadataManager``.

The module only reads, several partitions in parallel. Memory grows with the number of live keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tidelog.kernel import BatchTable
from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC
from tidelog.record.internal_records.committed_offset import OFFSETS, offset_place, read_offset
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.record.rows import iter_records
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.column_stream import ColumnChoice, column_chunks
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.partitions import each_partition
from tidelog.storage.log.view.row_stream import ReadRange, Rows, RowStream

_CHOICE = ColumnChoice(headers=False)

Key = tuple[str, TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """``commit_timestamp`` is in ms. ``leader_epoch`` is None if the commit did not name it."""

    group: str
    partition: TopicPartition
    offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp: int
    source: TopicPartition
    """The partition of ``__consumer_offsets`` that holds the record. ``source_offset`` is the record's offset there."""
    source_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """``undecoded`` counts keys and values of unknown types or versions, and undecodable ones. ``errors`` holds the
    errors of partitions."""

    offsets: tuple[CommittedOffset, ...]
    partitions: int
    undecoded: int
    errors: tuple[TidelogError, ...]


@dataclass(slots=True, kw_only=True)
class PartitionOffsets:
    """The offsets in one partition of ``__consumer_offsets``. With ``error``, they are those read before the error."""

    offsets: dict[Key, CommittedOffset] = field(default_factory=dict)
    undecoded: int = 0
    error: TidelogError | None = None


def read_committed_offsets(
    fs: FileSystem,
    path: Path,
    *,
    until: Until | None = None,
    threads: int | None = None,
    advance: Advance = lambda _bytes: None,
) -> GroupOffsets:
    """Return the offsets of all groups in a log directory, sorted by group, topic and partition. The result is empty if
    the directory has no ``__consumer_offsets``."""

    def read(view: LogView, partition: TopicPartition, tell: Advance) -> PartitionOffsets:
        return partition_offsets(view, partition, until=until, advance=tell)

    parts = each_partition(fs, path, read, topic=GROUP_METADATA_TOPIC, threads=threads, advance=advance)
    offsets = sorted(
        (commit for part in parts for commit in part.offsets.values()),
        key=lambda commit: (commit.group, commit.partition),
    )
    return GroupOffsets(
        offsets=tuple(offsets),
        partitions=len(parts),
        undecoded=sum(part.undecoded for part in parts),
        errors=tuple(part.error for part in parts if part.error is not None),
    )


def partition_offsets(
    view: LogView, source: TopicPartition, *, until: Until | None = None, advance: Advance = lambda _bytes: None
) -> PartitionOffsets:
    """Return the offsets of all groups stored in ``source``, a partition of ``__consumer_offsets``."""
    found = PartitionOffsets()
    try:
        _read_partition(view, source, until, found, advance)
    except TidelogError as error:
        found.error = error
    return found


def _read_partition(
    view: LogView, source: TopicPartition, until: Until | None, found: PartitionOffsets, advance: Advance
) -> None:
    end = view.end_offset(until)
    transactions = view.transactions(end)
    wanted = ReadRange(start=view.log_start, end=end, aborted=transactions.aborted)
    rows = _settled(view.batches(wanted), transactions.scan.open, advance)
    for chunk in column_chunks(rows, _CHOICE, wanted.start, wanted.end):
        for record in iter_records(chunk.columns):
            if record.key is not None:
                _apply(found, source, record.offset, record.key, record.value)


def _settled(stream: RowStream, open_: Mapping[int, int], advance: Advance) -> Iterator[Rows]:
    """Yield the batches without those of open transactions. ``open_`` maps producer id to first offset."""
    for rows in stream:
        advance(int(rows.table.size.sum()))
        pending = _pending(rows.table, open_)
        if pending.any():
            rows = rows._replace(table=rows.table.take(~pending))
        if len(rows.table):
            yield rows


def _pending(table: BatchTable, open_: Mapping[int, int]) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    pending = np.zeros(len(table), np.bool_)
    for producer_id, first_offset in open_.items():
        of_producer = (table.producer_id == producer_id) & table.is_transactional
        pending |= of_producer & (table.base_offset >= first_offset)
    return pending


def _apply(found: PartitionOffsets, source: TopicPartition, offset: int, key: bytes, value: bytes | None) -> None:
    try:
        record = GroupRecord.read_key(key)
        if record is not None and record.number in OFFSETS and value is not None:
            record = record.with_value(value)
    except TidelogError:
        record = None
    if record is None:
        found.undecoded += 1
    elif record.number in OFFSETS and record.value is None:
        found.offsets.pop(offset_place(record), None)
    elif record.number in OFFSETS:
        group, partition = offset_place(record)
        committed = read_offset(record, offset)
        found.offsets[group, partition] = CommittedOffset(
            group=group,
            partition=partition,
            offset=committed.offset,
            leader_epoch=committed.leader_epoch if committed.leader_epoch >= 0 else None,
            metadata=committed.metadata,
            commit_timestamp=committed.commit_ms,
            source=source,
            source_offset=offset,
        )
