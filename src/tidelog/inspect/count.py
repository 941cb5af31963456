"""The ``count`` report: the exact number of records in a partition.

The counts come from batch headers and, for tombstones, from the records. Offsets do not give the number: compaction and
transactions leave gaps, and control records take offsets. The counts cover ``[log start, log end)``:

================  ==================================================================================
records           the records a read_uncommitted consumer gets, up to the log end
committed         the records a read_committed consumer gets: below the last stable offset, not aborted
aborted           records of aborted transactions
held_back         the others: at or above the last stable offset, behind an open transaction
control           control records (markers), which no consumer gets
tombstones        records with a null value, among ``records``
records_above_hw  the ``records`` at or above the high watermark in its checkpoint
offsets_above_hw  the distance from that high watermark to the log end, markers and gaps included
================  ==================================================================================

``records = committed + aborted + held_back``. The module only reads, several partitions in parallel.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidelog.kernel import BatchTable, ColumnDecoder
from tidelog.model import TidelogError, TopicPartition
from tidelog.record.decode import decode_chunk
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.partitions import each_partition
from tidelog.storage.log.view.row_stream import ReadRange, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCount:
    """``tombstones`` is None with ``headers_only``. ``error`` is the reason if the partition could not be counted."""

    partition: TopicPartition
    directory: Path
    log_start: int = 0
    high_watermark: int = 0
    last_stable: int = 0
    log_end: int = 0
    records: int = 0
    committed: int = 0
    aborted: int = 0
    held_back: int = 0
    control: int = 0
    tombstones: int | None = None
    records_above_hw: int = 0
    offsets_above_hw: int = 0
    batches: int = 0
    bytes: int = 0
    error: TidelogError | None = None


def count_directory(
    fs: FileSystem,
    path: Path,
    *,
    only: Iterable[TopicPartition] | None = None,
    headers_only: bool = False,
    threads: int | None = None,
    advance: Advance = lambda _bytes: None,
) -> list[PartitionCount]:
    """Count every partition of a log directory, or the partitions in ``only``. With ``headers_only``, records are
    decoded only in batches whose headers do not give the counts."""

    def work(view: LogView, partition: TopicPartition, tell: Advance) -> PartitionCount:
        try:
            return count_partition(view, partition, headers_only=headers_only, advance=tell)
        except TidelogError as error:
            return PartitionCount(partition=partition, directory=view.directory, error=error)

    return each_partition(fs, path, work, only=only, threads=threads, advance=advance)


def count_partition(
    view: LogView, partition: TopicPartition, *, headers_only: bool = False, advance: Advance = lambda _bytes: None
) -> PartitionCount:
    """Count one partition. Raise CorruptRecordError if a batch contradicts itself."""
    marks = _Marks(
        last_stable=view.last_stable_offset(Until.LOG_END), high_watermark=view.end_offset(Until.HIGH_WATERMARK)
    )
    aborted = view.transactions(view.log_end).aborted
    wanted = ReadRange(start=view.log_start, end=view.log_end, control=True)
    tally = _Tally()
    for rows in view.batches(wanted):
        advance(int(rows.table.size.sum()))
        _count_rows(tally, rows, wanted, aborted.hits(rows.table), marks, headers_only=headers_only)
    return PartitionCount(
        partition=partition,
        directory=view.directory,
        log_start=view.log_start,
        high_watermark=marks.high_watermark,
        last_stable=marks.last_stable,
        log_end=view.log_end,
        records=tally.committed + tally.aborted + tally.held_back,
        committed=tally.committed,
        aborted=tally.aborted,
        held_back=tally.held_back,
        control=tally.control,
        tombstones=None if headers_only else tally.tombstones,
        records_above_hw=tally.above_hw,
        offsets_above_hw=view.log_end - marks.high_watermark,
        batches=tally.batches,
        bytes=tally.bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marks:
    """The offsets that separate the counts."""

    last_stable: int
    high_watermark: int


@dataclass(slots=True)
class _Tally:
    committed: int = 0
    aborted: int = 0
    held_back: int = 0
    control: int = 0
    tombstones: int = 0
    above_hw: int = 0
    batches: int = 0
    bytes: int = 0


def _count_rows(
    tally: _Tally,
    rows: Rows,
    wanted: ReadRange,
    is_aborted: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    marks: _Marks,
    *,
    headers_only: bool,
) -> None:
    table = rows.table
    tally.batches += len(table)
    tally.bytes += int(table.size.sum())
    is_data = ~table.is_control
    counts = table.record_count.astype(np.int64)
    # Headers do not give the record count of an old compressed set. For a batch across a boundary (the log start, the
    # last stable offset, the high watermark) they do not give the count on each side.
    cut = _straddles(table, marks.last_stable) | _straddles(table, marks.high_watermark)
    undecided = is_data & ((counts < 0) | (table.base_offset < wanted.start) | cut)
    for row in np.flatnonzero(undecided).tolist():
        _count_decoded(tally, rows, row, wanted, bool(is_aborted[row]), marks)
    known = is_data & ~undecided
    tally.control += int(counts[table.is_control].sum())
    tally.aborted += int(counts[known & is_aborted].sum())
    tally.above_hw += int(counts[known & (table.base_offset >= marks.high_watermark)].sum())
    below = table.last_offset < marks.last_stable
    tally.committed += int(counts[known & ~is_aborted & below].sum())
    tally.held_back += int(counts[known & ~is_aborted & ~below].sum())
    if not headers_only:
        tally.tombstones += _tombstones(rows, is_data, wanted)


def _straddles(table: BatchTable, offset: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return np.logical_and(table.base_offset < offset, table.last_offset >= offset)


def _count_decoded(tally: _Tally, rows: Rows, row: int, wanted: ReadRange, is_aborted: bool, marks: _Marks) -> None:
    decoder = ColumnDecoder(keys=False, values=False, headers=False, start_offset=wanted.start, end_offset=wanted.end)
    one = rows.table.take(slice(row, row + 1))
    decode_chunk(rows.buffer, one, decoder, base_position=rows.base_position)
    offsets = decoder.finish().offset
    tally.above_hw += int(np.count_nonzero(offsets >= marks.high_watermark))
    if is_aborted:
        tally.aborted += len(offsets)
        return
    below = int(np.count_nonzero(offsets < marks.last_stable))
    tally.committed += below
    tally.held_back += len(offsets) - below


def _tombstones(rows: Rows, is_data: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], wanted: ReadRange) -> int:
    table = rows.table if is_data.all() else rows.table.take(is_data)
    found = row = 0
    while row < len(table):
        decoder = ColumnDecoder(keys=False, headers=False, start_offset=wanted.start, end_offset=wanted.end)
        row = decode_chunk(rows.buffer, table, decoder, base_position=rows.base_position, first=row)
        found += decoder.finish().value_null_count
    return found
