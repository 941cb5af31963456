"""A log that many tasks clean together, as an immutable value that every task receives.

The driver makes it while it has the log open.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidelog.model import TopicPartition
from tidelog.spark.jobs.staging import new_staging
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.segment_groups import SegmentSizes, group_segments
from tidelog.storage.fs import LOCAL
from tidelog.storage.index import AbortedTxn
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.compact.log_compaction import LogToCompact
from tidelog.storage.producer import LastRecord
from tidelog.storage.segment.segment import LogSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadLog:
    """``base_offsets`` and ``ends`` belong to the segments to clean. ``groups`` are ranges of their indexes."""

    partition: TopicPartition
    directory: Path
    config: LogConfig
    base_offsets: tuple[int, ...]
    ends: tuple[int, ...]
    """The offset after the last batch of each segment."""
    groups: tuple[range, ...]
    first_dirty: int
    first_uncleanable: int
    high_watermark: int
    aborted: tuple[AbortedTxn, ...]
    last_records: Mapping[int, LastRecord]
    legacy_delete_horizon_ms: int
    now_ms: int
    job_id: str
    """The id in the names of the job's ``staging`` directories."""

    @classmethod
    def of(cls, log: PartitionLog, work: LogToCompact, *, now_ms: int, job_id: str) -> Self:
        """Describe a log that the caller has open. Its segments must hold no offset that overflows."""
        first_dirty, end = work.plan.first_dirty_offset, work.plan.end_offset
        segments = [segment for segment in log.segments if segment.base_offset < end]
        cleaned_before = [segment for segment in segments if segment.base_offset < first_dirty]
        sizes = [SegmentSizes.of(segment) for segment in segments]
        last_cleaned_ms = cleaned_before[-1].modified_ms if cleaned_before else None
        return cls(
            partition=work.plan.partition,
            directory=log.directory,
            config=log.config,
            base_offsets=tuple(segment.base_offset for segment in segments),
            ends=tuple(segment.read_next_offset() for segment in segments),
            groups=tuple(group_segments(sizes, log.config, first_uncleanable=end)),
            first_dirty=first_dirty,
            first_uncleanable=end,
            high_watermark=log.high_watermark,
            aborted=log.aborted_transactions(segments[0].base_offset, end),
            last_records=log.last_records_of_active_producers(),
            legacy_delete_horizon_ms=0 if last_cleaned_ms is None else last_cleaned_ms - log.config.delete_retention_ms,
            now_ms=now_ms,
            job_id=job_id,
        )

    def segments(self, number: int) -> list[LogSegment]:
        """Return the segments of a group, for reading."""
        limits = self.config.segment_limits
        return [
            LogSegment(LOCAL, self.directory, self.base_offsets[at], limits, now_ms=self.now_ms)
            for at in self.groups[number]
        ]

    def new_staging(self) -> Path:
        """Create a staging directory for one task attempt."""
        staging = new_staging(self.directory.parent, self.partition, self.job_id)
        LOCAL.make_dir(staging)
        return staging

    def aborted_transactions(self, start: int, end: int) -> tuple[AbortedTxn, ...]:
        """Return the aborted transactions in the range, as the log itself does."""
        return tuple(one for one in self.aborted if one.last_offset >= start and one.first_offset < end)


def transactions_at_groups(log: SpreadLog) -> list[bytes]:
    """Return the pickled transaction state at the start of each group. It runs in a task, which reads the headers."""
    transactions = CleanedTransactions()
    states = []
    for number, group in enumerate(log.groups):
        states.append(pickle.dumps(transactions))
        for segment, at in zip(log.segments(number), group, strict=True):
            transactions.add(log.aborted_transactions(segment.base_offset, log.ends[at]))
            for chunk in segment.chunks(0, verify_crc=False):
                transactions.decide(chunk)
    return states
