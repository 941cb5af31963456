"""The start and end of a partition's read, from options: offsets, timestamps, earliest, latest.

===========  ==========================================  =============================================================
given        start                                       end
===========  ==========================================  =============================================================
a timestamp  the first record at or after it; without    the first record at or after it (which is not read); without
             one an error, or the limit (``latest``)     one the limit
an offset    that offset                                 that offset
earliest     the log start                               –
latest       the limit (in a stream only)                the limit
===========  ==========================================  =============================================================

The limit is the end that ``until`` and the isolation level allow. Source: Spark's ``KafkaOffsetReaderAdmin``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidelog.model import Isolation, OffsetOutOfRangeError, TopicPartition
from tidelog.spark.read.options import EARLIEST, LATEST, Bound, OnCorrupt, ReadOptions, Until
from tidelog.spark.read.table_columns import Mode
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import CorruptPolicy
from tidelog.storage.log.view.transaction_scan import AbortedRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedBounds:
    """The bounds as offsets, not yet clamped to the log."""

    start: int
    end: int
    limit: int
    aborted: AbortedRanges | None
    """The aborted transactions, for read_committed."""

    @classmethod
    def resolve(cls, view: LogView, options: ReadOptions, partition: TopicPartition) -> Self:
        """Resolve the bounds. Raise OffsetOutOfRangeError if no record is as late as a starting timestamp."""
        reading = _Reading(view, options, partition)
        committed = options.read_committed and options.mode is Mode.RECORDS
        return cls(
            start=reading.start(),
            end=reading.end(),
            limit=reading.limit,
            aborted=view.transactions(view.end_offset(reading.until)).aborted if committed else None,
        )


class _Reading:
    def __init__(self, view: LogView, options: ReadOptions, partition: TopicPartition) -> None:
        self._view = view
        self._options = options
        self._partition = partition
        self._isolation = Isolation.READ_COMMITTED if options.read_committed else Isolation.READ_UNCOMMITTED
        self.until = None if options.until is Until.AUTO else options.until.value
        # The batches table shows everything in the files, even above the high watermark.
        self.limit = view.log_end if options.mode is Mode.BATCHES else view.limit(self._isolation, self.until)

    def start(self) -> int:
        timestamp = self._timestamp(self._options.starting)
        if timestamp is None:
            offset = self._offset(self._options.starting)
            return {EARLIEST: self._view.log_start, LATEST: self.limit}.get(offset, offset)
        found = self._offset_at(timestamp)
        if found is not None:
            return found
        if self._options.starting_timestamp_falls_back_to_latest:
            return self.limit
        raise OffsetOutOfRangeError(
            f"{self._partition} has no record at or after timestamp {timestamp}; set "
            "startingOffsetsByTimestampStrategy to latest to read nothing there",
            path=self._view.directory,
        )

    def end(self) -> int:
        timestamp = self._timestamp(self._options.ending)
        if timestamp is None:
            offset = self._offset(self._options.ending)
            return self.limit if offset == LATEST else offset
        found = self._offset_at(timestamp)
        return self.limit if found is None else found

    def _offset_at(self, timestamp_ms: int) -> int | None:
        skip = self._options.on_corrupt is not OnCorrupt.FAIL
        record = self._view.offset_for_timestamp(
            timestamp_ms,
            isolation=self._isolation,
            until=self.until,
            on_corrupt=CorruptPolicy.SKIP if skip else CorruptPolicy.FAIL,
        )
        return None if record is None else record.offset

    def _timestamp(self, bound: Bound) -> int | None:
        return bound.timestamp_ms if bound.timestamps_ms is None else bound.timestamps_ms[self._partition]

    def _offset(self, bound: Bound) -> int:
        if bound.offsets is not None:
            return bound.offsets[self._partition]
        assert bound.everywhere is not None, "a bound has one of four forms"
        return bound.everywhere
