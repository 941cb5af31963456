"""The rewrite of one group of a spread log, by the latest offsets of the group's keys."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.kernel import OffsetMap, RecordColumns
from tidelog.model import StorageError
from tidelog.spark.jobs.compaction.keys import key_buffers
from tidelog.spark.jobs.compaction.spread_log import SpreadLog
from tidelog.storage.cleaner.clean.clean_log import CHUNK_BYTES
from tidelog.storage.cleaner.clean.clean_request import CleanerStats, CleanRequest
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.group_rewrite import GroupRewrite
from tidelog.storage.cleaner.clean.parallel_map import ParallelMap
from tidelog.storage.cleaner.clean.segment_chunks import BatchTableCache
from tidelog.storage.cleaner.cleaner_settings import enough_map_bytes
from tidelog.storage.fs import LOCAL
from tidelog.storage.index import AbortedTxn
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer import LastRecord
from tidelog.storage.segment.cleaned_segment import CleanedSegment
from tidelog.storage.segment.segment import LogSegment


class Rewritten(NamedTuple):
    """A group's new segment. Its files lie in ``staging`` with the suffix ``.cleaned``."""

    number: int
    staging: Path
    base_offset: int
    size: int


def rewrite_group(log: SpreadLog, number: int, keys: pa.Table, transactions: CleanedTransactions) -> Rewritten:
    """Rewrite a group. ``keys`` are the group's rows from ``newest_of_all_groups``.

    CorruptRecordError and StorageError leave only the staging directory.
    """
    segments, staged = log.segments(number), _StagedLog(log, log.new_staging())
    request = CleanRequest(
        log=staged,
        first_dirty=log.first_dirty,
        first_uncleanable=log.first_uncleanable,
        offset_map=_offset_map(keys, latest_offset=log.first_uncleanable - 1),
        now_ms=log.now_ms,
        chunk_bytes=CHUNK_BYTES,
        check_done=lambda: None,
        throttle=lambda _bytes: None,
    )
    with ParallelMap() as threads:
        GroupRewrite(
            request=request,
            transactions=transactions,
            legacy_delete_horizon_ms=log.legacy_delete_horizon_ms,
            truncation_count=0,
            stats=CleanerStats(start_ms=0),
            threads=threads,
            table_cache=BatchTableCache(),
        ).rewrite([segments], at_once=True)
    [cleaned] = staged.finished
    return Rewritten(number, staged.staging, cleaned.base_offset, cleaned.size)


class _StagedLog:
    """The log as a task sees it: new segments stay in the task's own staging directory."""

    def __init__(self, log: SpreadLog, staging: Path) -> None:
        self.staging = staging
        self.finished: tuple[CleanedSegment, ...] = ()
        self._log = log

    @property
    def config(self) -> LogConfig:
        return self._log.config

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    def aborted_transactions(self, start: int, end: int) -> tuple[AbortedTxn, ...]:
        return self._log.aborted_transactions(start, end)

    def last_records_of_active_producers(self) -> Mapping[int, LastRecord]:
        return self._log.last_records

    def create_cleaned_segment(self, base_offset: int) -> CleanedSegment:
        return CleanedSegment(LOCAL, self.staging, base_offset, index_interval_bytes=self.config.index_interval_bytes)

    def replace_segments(
        self, new: Sequence[CleanedSegment], old: Sequence[LogSegment], *, truncation_count: int
    ) -> None:
        """Keep the new segments. The driver swaps in all groups at once."""
        self.finished = tuple(new)

    def split_overflowed(self, segment: LogSegment) -> list[int]:
        """Raise StorageError: a log with overflowed segments is not spread."""
        raise StorageError("the segment has offsets that no index can hold", path=segment.path)


def _offset_map(keys: pa.Table, *, latest_offset: int) -> OffsetMap:
    offset_map = OffsetMap(enough_map_bytes(len(keys)), key=secrets.token_bytes(16))
    for batch in keys.to_batches():
        offset_map.put_columns(_columns(batch))
    offset_map.latest_offset = latest_offset
    return offset_map


def _columns(batch: pa.RecordBatch) -> RecordColumns:
    bounds, data = key_buffers(batch.column("key"))
    nothing = np.zeros(len(batch), np.int64)
    return RecordColumns(
        offset=batch.column("latest").to_numpy(),
        timestamp=nothing,
        timestamp_type=nothing.astype(np.int8),
        key_offsets=bounds,
        key_data=data.data,
    )
