"""What is asked of an open log, and answered without its lock: half of ``PartitionLog``, which is the other.

Answers are taken from immutable snapshots of segments and offsets; what was removed or renamed while it was looked at
is looked for again. What looks for times is imported when somebody first asks: a broker that starts has no use for it.
Called by: whoever has a PartitionLog. Thread rule: any thread. Source: Kafka's ``UnifiedLog``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tidelog.model import ClosedError, Isolation, LogOffsetMetadata, LogOffsetSnapshot, StorageError
from tidelog.storage.index import AbortedTransaction, TimestampOffset
from tidelog.storage.log.config import LogConfig
from tidelog.storage.log.list_offsets import ListedOffset, list_offset
from tidelog.storage.log.log_counters import LogCounters, LogMetrics, log_metrics
from tidelog.storage.log.log_gate import LogGate
from tidelog.storage.log.log_read import LogRead, ReadLimits, collect_aborted, read_segments, readable_end
from tidelog.storage.log.log_state import LogState
from tidelog.storage.producer import LastRecord, ProducerEntry
from tidelog.storage.segment.segment import LogSegment

T = TypeVar("T")


class ReadableLog:
    """Made as a PartitionLog."""

    def __init__(self, state: LogState, gate: LogGate, counters: LogCounters) -> None:
        self._state = state
        self._gate = gate
        self.counters = counters

    # --- what it is ---

    @property
    def directory(self) -> Path:
        return self._state.directory

    @property
    def config(self) -> LogConfig:
        return self._state.config

    @property
    def recovery_point(self) -> int:
        """Everything below is on the disk, or below the log start, as in Kafka."""
        return self._state.offsets.recovery_point

    @property
    def synced_offset(self) -> int:
        """Everything below is on the disk, deleted records too, should a crash bring them back: for the checkpoint."""
        return self._state.offsets.synced

    @property
    def log_start_offset(self) -> int:
        return self._state.offsets.log_start

    @property
    def end_offset(self) -> int:
        """Of the next record; asked of a closed log too."""
        return self._state.offsets.log_end.message_offset

    @property
    def log_end(self) -> LogOffsetMetadata:
        """The end offset, and where it lies."""
        return self._state.offsets.log_end

    @property
    def high_watermark(self) -> int:
        """Records below it are on all in-sync replicas; asked of a closed log too."""
        return self._state.offsets.high_watermark.message_offset

    @property
    def is_owner(self) -> bool:
        """False in a forked child of the process that opened the log."""
        return self._gate.guard.is_owner

    @property
    def is_sound(self) -> bool:
        """No write failed."""
        return self._gate.failure is None

    @property
    def starts_inside_segment(self) -> bool:
        return self.log_start_offset > self.base_offsets[0]

    @property
    def base_offsets(self) -> list[int]:
        """Of the segments, ascending."""
        return self._state.segments.base_offsets

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self.metrics().size

    def metrics(self) -> LogMetrics:
        """At this moment; ``counters`` has what happened so far. Asked of a closed log too."""
        return log_metrics(self._state.segments, self._state.offsets, self.counters.last_flush_ms)

    @property
    def producers(self) -> Mapping[int, ProducerEntry]:
        """The producers whose sequences are known, by id; do not change the entries."""
        return self._state.producers.state.producers

    def offsets(self) -> LogOffsetSnapshot:
        """Log start, last stable offset, high watermark and log end, at one moment."""
        return self._look(self._offsets)

    @property
    def topic_id(self) -> uuid.UUID | None:
        return self._state.topic.topic_id

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """At this moment, ascending; the last one is appended to."""
        return self._state.segments.at_this_moment

    @property
    def cuts(self) -> int:
        """How often records were cut off the end: what was read before that may not be there any more."""
        return self._state.cuts

    def last_records_of_active_producers(self) -> dict[int, LastRecord]:
        """By producer id: what compaction has to leave, so that the producers are known as they are."""
        with self._gate.lock:
            return {entry.producer_id: entry.last_record for entry in self.producers.values()}

    # --- reading ---

    def read(self, limits: ReadLimits) -> LogRead:
        """Batches from an offset on; see ``log_read``. Takes no lock."""
        return self._look(lambda: read_segments(self._state.segments, self.offsets(), limits, self.directory))

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record at or after a timestamp, below the high watermark; None where there is none."""
        from tidelog.storage.log.time_lookup import first_in_segments

        offsets = self.offsets()
        start, end = offsets.log_start, offsets.high_watermark.message_offset
        limit = self._state.config.max_decompressed_message_bytes
        return self._look(
            lambda: first_in_segments(self._state.segments, timestamp_ms, start, end, max_record_bytes=limit)
        )

    def list_offset(self, timestamp: int, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> ListedOffset | None:
        """The answer to Kafka's ListOffsets: a time in ms, or a number of ``OffsetSpec``; see ``list_offsets``."""
        from tidelog.storage.log.time_lookup import list_request

        offsets = self.offsets()
        start, end = offsets.log_start, readable_end(offsets, isolation).message_offset
        limit = self._state.config.max_decompressed_message_bytes
        request = list_request(self._state.segments, self._state.epochs, start, end, max_record_bytes=limit)
        return self._look(lambda: list_offset(timestamp, request))

    def aborted_transactions(self, start: int, end: int) -> tuple[AbortedTransaction, ...]:
        """Those that begin below ``end``, by the indexes from the segment on that holds ``start``.

        As Kafka's cleaner is told of them: also those that ended before ``start``, but above the log start.
        """
        return self._look(lambda: self._aborted(start, end))

    # --- inside ---

    def _look(self, find: Callable[[], T]) -> T:
        """What is found in the files; looked for again where they were removed or renamed meanwhile."""
        while True:
            self._gate.require_open()
            before = (self.directory, self._state.segments.at_this_moment)
            try:
                return find()
            except (StorageError, ClosedError) as error:
                with self._gate.lock:  # what is under way ends first
                    if before == (self.directory, self._state.segments.at_this_moment):
                        self._gate.report(error)
                        raise

    def _offsets(self) -> LogOffsetSnapshot:
        snapshot = self._state.offset_snapshot()
        if not snapshot.is_whole:
            with self._gate.lock:
                self._state.resolve_high_watermark()
                snapshot = self._state.offset_snapshot()
        return snapshot

    def _aborted(self, start: int, end: int) -> tuple[AbortedTransaction, ...]:
        first = self._state.segments.floor(start)
        return collect_aborted(
            self._state.segments, start if first is None else first.base_offset, self.log_start_offset, end
        )
