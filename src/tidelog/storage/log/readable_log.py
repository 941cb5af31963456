"""The queries of an open log that need no lock: the base class of ``PartitionLog``.

Results come from immutable snapshots of segments and offsets. A query repeats if files were removed or renamed during
it. The timestamp lookup is imported at its first use, because a starting broker does not need it.
Thread rule: any thread. Source: Kafka's ``UnifiedLog``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from tidelog.kernel import BatchTable, PlainReads, scan_batches
from tidelog.model import ClosedError, CorruptRecordError, Isolation, LogOffsetMetadata, LogOffsetSnapshot, StorageError
from tidelog.storage.index import AbortedTxn, TimestampOffset
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.state.log_counters import LogCounters, LogMetrics, log_metrics
from tidelog.storage.log.state.log_lifecycle import LogLifecycle
from tidelog.storage.log.state.log_read import LogRead, LogReadRequest, collect_aborted, read_segments, readable_end
from tidelog.storage.log.state.log_state import LogState
from tidelog.storage.log.view.list_offsets import ListedOffset, list_offset
from tidelog.storage.producer import LastRecord, ProducerEntry
from tidelog.storage.segment.segment import LogSegment

T = TypeVar("T")


class ReadableLog:
    """The reading half of a log; create it as a PartitionLog."""

    def __init__(self, state: LogState, lifecycle: LogLifecycle, counters: LogCounters) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self.counters = counters

    # --- state ---

    @property
    def directory(self) -> Path:
        return self._state.directory

    @property
    def config(self) -> LogConfig:
        return self._state.config

    @property
    def recovery_point(self) -> int:
        """Every record below it is on the disk, or below the log start, as in Kafka."""
        return self._state.offsets.recovery_point

    @property
    def synced_offset(self) -> int:
        """Every record below it is on the disk, even deleted records that a crash may restore: for the checkpoint."""
        return self._state.offsets.synced

    @property
    def log_start_offset(self) -> int:
        return self._state.offsets.log_start

    @property
    def end_offset(self) -> int:
        """The next record's offset, readable on a closed log too."""
        return self._state.offsets.log_end.message_offset

    @property
    def log_end(self) -> LogOffsetMetadata:
        """The end offset with its segment and position."""
        return self._state.offsets.log_end

    @property
    def high_watermark(self) -> int:
        """The offset below which all records are on all in-sync replicas, readable on a closed log too."""
        return self._state.offsets.high_watermark.message_offset

    @property
    def is_owner(self) -> bool:
        """False in a forked child of the process that opened the log."""
        return self._lifecycle.guard.is_owner

    @property
    def is_healthy(self) -> bool:
        """True if no write failed."""
        return self._lifecycle.failure is None

    @property
    def starts_inside_segment(self) -> bool:
        return self.log_start_offset > self.base_offsets[0]

    @property
    def base_offsets(self) -> list[int]:
        """Ascending base offsets of the segments."""
        return self._state.segments.base_offsets

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self.metrics().size

    def metrics(self) -> LogMetrics:
        """Return the gauges at this moment; ``counters`` holds the events so far. Works on a closed log too."""
        return log_metrics(self._state.segments, self._state.offsets, self.counters.last_flush_ms)

    @property
    def producers(self) -> Mapping[int, ProducerEntry]:
        """The producers with known sequences by id. Do not change the entries."""
        return self._state.producers.state.producers

    def has_late_transaction(self, now_ms: int, max_timeout_ms: int) -> bool:
        """Return True if a transaction is still open five minutes after ``max_timeout_ms``, the largest timeout that
        coordinators grant (KIP-664)."""
        return self._state.producers.state.has_late_transaction(now_ms, max_timeout_ms)

    def offsets(self) -> LogOffsetSnapshot:
        """Return log start, last stable offset, high watermark and log end at one moment."""
        return self._retrying(self._offsets)

    @property
    def topic_id(self) -> uuid.UUID | None:
        return self._state.topic.topic_id

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The current segments, ascending. The last one is active."""
        return self._state.segments.at_this_moment

    @property
    def truncation_count(self) -> int:
        """Number of truncations of the log end. Records read before a truncation may be gone."""
        return self._state.truncation_count

    def last_records_of_active_producers(self) -> dict[int, LastRecord]:
        """Return the last record by producer id. Compaction must keep these records to preserve the producer state."""
        with self._lifecycle.lock:
            return {entry.producer_id: entry.last_record for entry in self.producers.values()}

    # --- reading ---

    def read(self, request: LogReadRequest) -> LogRead:
        """Read batches from an offset on without a lock; see ``log_read``."""
        return self._retrying(lambda: read_segments(self._state.segments, self._offsets(), request, self.directory))

    @cached_property
    def plain_reads(self) -> PlainReads:
        return PlainReads(self._state, self._lifecycle)

    def read_through(self, start: int, end: int, max_bytes: int) -> Iterator[tuple[bytes, BatchTable]]:
        """Yield the complete batches with records in [start, end), about ``max_bytes`` at a time, but at least one
        batch.

        The first batch may begin below ``start``, and the bytes may end with a partial batch. The result ends early if
        compaction has removed all offsets up to ``end``. Raise CorruptRecordError if a read finds no complete batch at
        or above its start, because another read would find the same, and the errors of ``read``.
        """
        while start < end:
            data = self.read(
                LogReadRequest(start_offset=start, max_bytes=max_bytes, isolation=Isolation.LOG_END)
            ).data()
            if not data:
                return
            table = scan_batches(data)
            following = int(table.last_offset[-1]) + 1 if len(table) else start
            if following <= start:
                raise CorruptRecordError(
                    f"the log continues to offset {end}, but no complete batch was found",
                    path=self.directory,
                    offset=start,
                )
            yield data, table
            start = following

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the first record at or after a timestamp below the high watermark, or None."""
        from tidelog.storage.log.view.time_lookup import first_in_segments

        offsets = self.offsets()
        start, end = offsets.log_start, offsets.high_watermark.message_offset
        limit = self._state.config.max_decompressed_message_bytes
        return self._retrying(
            lambda: first_in_segments(self._state.segments, timestamp_ms, start, end, max_record_bytes=limit)
        )

    def list_offset(self, timestamp: int, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> ListedOffset | None:
        """Return the result of Kafka's ListOffsets for a time in ms or an ``OffsetSpec``; see ``list_offsets``."""
        from tidelog.storage.log.view.time_lookup import list_request

        offsets = self.offsets()
        start, end = offsets.log_start, readable_end(offsets, isolation).message_offset
        limit = self._state.config.max_decompressed_message_bytes
        request = list_request(self._state.segments, self._state.epochs, start, end, max_record_bytes=limit)
        return self._retrying(lambda: list_offset(timestamp, request))

    def aborted_transactions(self, start: int, end: int) -> tuple[AbortedTxn, ...]:
        """Return aborted transactions that begin below ``end``. Read the indexes from ``start``'s segment on.

        Like Kafka's cleaner, include transactions that ended before ``start`` but above the log start.
        """
        return self._retrying(lambda: self._aborted(start, end))

    # --- inside ---

    def _retrying(self, find: Callable[[], T]) -> T:
        """Run a search in the files. Repeat it if they were removed or renamed during it."""
        while True:
            self._lifecycle.require_open()
            before = (self.directory, self._state.segments.at_this_moment)
            try:
                return find()
            except (StorageError, ClosedError) as error:
                with self._lifecycle.lock:  # waits for a change in progress
                    if before == (self.directory, self._state.segments.at_this_moment):
                        self._lifecycle.report(error)
                        raise

    def _offsets(self) -> LogOffsetSnapshot:
        snapshot = self._state.offset_snapshot()
        if not snapshot.is_whole:
            with self._lifecycle.lock:
                self._state.resolve_high_watermark()
                snapshot = self._state.offset_snapshot()
        return snapshot

    def _aborted(self, start: int, end: int) -> tuple[AbortedTxn, ...]:
        first = self._state.segments.floor(start)
        return collect_aborted(
            self._state.segments, start if first is None else first.base_offset, self.log_start_offset, end
        )
