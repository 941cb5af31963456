"""The open transactions of partitions: their producers, their start, and the data they block.

A transaction is open while its partition has no marker after its data. From its first offset on, read_committed
consumers get nothing from any producer: the transaction blocks everything up to the log end. The cleaner stops there
too.

The producer, the last offset and the last timestamp come from the producer state, as in Kafka's DescribeProducers
(KIP-664). The start and the blocked data are counted from the batches after the first offset. ``transaction_survey``
decides whether a transaction hangs.

The module only reads, several partitions in parallel. Memory does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tidelog.model import TidelogError, TopicPartition
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.partitions import each_partition
from tidelog.storage.log.view.record_count import counts_of
from tidelog.storage.log.view.row_stream import ReadRange, Rows, counted
from tidelog.storage.log.view.view_producers import read_producers
from tidelog.storage.producer.entry import ProducerEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """Offsets are the partition's, and timestamps are in ms. None means that the value is not known.

    ``coordinator_epoch`` is that of the producer's last marker here. ``start_timestamp`` is the first record's, None if
    that was deleted. ``records`` and ``bytes`` are the transaction's own. ``held_back`` values count everything from
    ``start_offset`` to the log end.
    """

    partition: TopicPartition
    directory: Path
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    start_offset: int
    start_timestamp: int | None
    last_offset: int | None
    last_timestamp: int | None
    records: int
    bytes: int
    held_back_records: int
    held_back_offsets: int
    held_back_bytes: int
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTransactions:
    """The transactions open in one partition, by start offset. ``error`` is the reason if they are not known."""

    partition: TopicPartition
    directory: Path
    open: tuple[OpenTransaction, ...] = ()
    error: TidelogError | None = None


def open_transactions(
    fs: FileSystem,
    path: Path,
    *,
    only: Iterable[TopicPartition] | None = None,
    threads: int | None = None,
    advance: Advance = lambda _bytes: None,
) -> list[PartitionTransactions]:
    """Return the open transactions of every partition of a log directory, or of the partitions in ``only``. Raise
    DirectoryError if the directory cannot be listed."""

    def work(view: LogView, partition: TopicPartition, tell: Advance) -> PartitionTransactions:
        try:
            found = tuple(partition_transactions(view, partition, tell))
        except TidelogError as error:
            return PartitionTransactions(partition=partition, directory=view.directory, error=error)
        return PartitionTransactions(partition=partition, directory=view.directory, open=found)

    return each_partition(fs, path, work, only=only, threads=threads, advance=advance)


def partition_transactions(
    view: LogView, partition: TopicPartition, advance: Advance = lambda _bytes: None
) -> Sequence[OpenTransaction]:
    """Return transactions by start offset. Raise CorruptRecordError if a batch that must be read contradicts itself."""
    extent = (view.log_start, view.log_end)
    entries = {
        entry.transaction_first_offset: entry
        for entry in read_producers(view, advance=advance).values()
        if entry.transaction_first_offset is not None
    }
    if not entries:
        return ()
    tally = _Tally(*extent, entries)
    start = max(tally.start, min(entries))
    for rows in counted(view.batches(ReadRange(start=start, end=tally.end, control=True)), advance):
        tally.add(rows)
    ends = (view.last_stable_offset(Until.LOG_END), view.end_offset(Until.HIGH_WATERMARK))
    return [_transaction(view, partition, entries[start], tally, ends) for start in sorted(entries)]


def is_still_open(view: LogView, transaction: OpenTransaction) -> bool:
    """Refresh the view and return True if the transaction is still open: a running owner may have ended it."""
    view.refresh()
    return view.transactions(view.log_end).scan.open.get(transaction.producer_id) == transaction.start_offset


def _transaction(
    view: LogView, partition: TopicPartition, entry: ProducerEntry, tally: _Tally, ends: tuple[int, int]
) -> OpenTransaction:
    start = entry.transaction_first_offset
    assert start is not None
    own, held_back = tally.own[start], tally.held_back_from(start)
    return OpenTransaction(
        partition=partition,
        directory=view.directory,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        coordinator_epoch=entry.coordinator_epoch if entry.coordinator_epoch >= 0 else None,
        start_offset=start,
        start_timestamp=own.start_timestamp,
        last_offset=entry.last_data_offset if entry.last_data_offset >= 0 else None,
        last_timestamp=entry.last_timestamp if entry.last_timestamp >= 0 else None,
        records=own.records,
        bytes=own.bytes,
        held_back_records=held_back.records,
        held_back_offsets=tally.end - max(start, tally.start),
        held_back_bytes=held_back.bytes,
        log_start=tally.start,
        last_stable=ends[0],
        high_watermark=ends[1],
        log_end=tally.end,
    )


@dataclass(slots=True)
class _Size:
    records: int = 0
    bytes: int = 0
    start_timestamp: int | None = None


class _Tally:
    """The counts for each transaction: its own data, and all data from its first offset on."""

    def __init__(self, start: int, end: int, entries: Mapping[int, ProducerEntry]) -> None:
        self.start = start
        self.end = end
        self.own = {first: _Size() for first in entries}
        self._producers = {first: entry.producer_id for first, entry in entries.items()}
        self._firsts = np.array(sorted(entries), np.int64)
        # The sums run from the start of one transaction to the start of the next, so that every batch is counted once.
        self._records = np.zeros(len(entries), np.int64)
        self._bytes = np.zeros(len(entries), np.int64)

    def add(self, rows: Rows) -> None:
        table = rows.table
        counts = np.where(table.is_control, 0, counts_of(rows, self.start, self.end))
        sizes = table.size.astype(np.int64)
        stretch = np.maximum(self._firsts.searchsorted(table.base_offset, side="right") - 1, 0)
        np.add.at(self._records, stretch, counts)
        np.add.at(self._bytes, stretch, sizes)
        data = table.is_transactional & ~table.is_control
        for first, producer_id in self._producers.items():
            mine = data & (table.producer_id == producer_id) & (table.base_offset >= first)
            if mine.any():
                self._add_own(self.own[first], rows, first, mine, counts)

    def _add_own(self, own: _Size, rows: Rows, first: int, mine: NDArray[np.bool_], counts: NDArray[np.int64]) -> None:
        own.records += int(counts[mine].sum())
        own.bytes += int(rows.table.size[mine].sum())
        row = rows.table.row(int(np.argmax(mine)))
        if row.base_offset == first:
            timestamp = row.max_timestamp if rows.table.is_log_append[int(np.argmax(mine))] else row.base_timestamp
            own.start_timestamp = timestamp if timestamp >= 0 else None

    def held_back_from(self, first: int) -> _Size:
        at = int(self._firsts.searchsorted(first))
        return _Size(int(self._records[at:].sum()), int(self._bytes[at:].sum()))
