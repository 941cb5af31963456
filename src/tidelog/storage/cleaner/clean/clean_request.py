"""The request for a clean, its result with statistics, and the file names of its errors.

Source of the statistics: Kafka's ``CleanerStats`` and the report of its ``CleanerThread``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from tidelog.kernel import OffsetMap
from tidelog.model import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from tidelog.record.cleaning import CleanStats
from tidelog.storage.index import AbortedTxn
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer import LastRecord
from tidelog.storage.segment.cleaned_segment import CleanedSegment
from tidelog.storage.segment.segment import LogSegment


class CleanableLog(Protocol):
    """The part of ``PartitionLog`` that a clean needs."""

    @property
    def config(self) -> LogConfig: ...
    @property
    def high_watermark(self) -> int: ...
    def aborted_transactions(self, start: int, end: int) -> tuple[AbortedTxn, ...]: ...
    def last_records_of_active_producers(self) -> Mapping[int, LastRecord]: ...
    def create_cleaned_segment(self, base_offset: int) -> CleanedSegment: ...
    def replace_segments(
        self, new: Sequence[CleanedSegment], old: Sequence[LogSegment], *, truncation_count: int
    ) -> None: ...
    def split_overflowed(self, segment: LogSegment) -> list[int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanRequest:
    log: CleanableLog
    first_dirty: int
    """The end of the last clean; all records below it are clean."""
    first_uncleanable: int
    """The base offset of the first segment that stays unchanged."""
    offset_map: OffsetMap
    """A map that the clean owns while it runs; its contents are cleared."""
    now_ms: int
    chunk_bytes: int
    check_done: Callable[[], None]
    throttle: Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    next_dirty_offset: int
    stats: CleanerStats


@contextmanager
def errors_with_file(segment: LogSegment) -> Iterator[None]:
    """Add the segment's file name to errors about its records."""
    try:
        yield
    except (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError) as error:
        if error.path is not None:
            raise
        raise type(error)(error.message, path=segment.path, position=error.position, offset=error.offset) from error


_MB = 1024 * 1024


@dataclass(slots=True, kw_only=True)
class CleanerStats:
    """Byte counts of batches, counts of records, and times of a monotonic clock in ms."""

    start_ms: int
    map_bytes_read: int = 0
    map_messages_read: int = 0
    """Counts for the offset map. A compressed message of v0 or v1 counts as one."""
    map_done_ms: int = 0
    bytes_read: int = 0
    messages_read: int = 0
    """Counts for the rewriting. The messages of a batch whose bytes were not read do not count."""
    bytes_written: int = 0
    messages_written: int = 0
    invalid_messages_read: int = 0
    """Records that were removed because they have no key."""
    buffer_utilization: float = 0.0
    """The used share of the offset map's slots, from 0 to 1."""
    end_ms: int = 0

    def note_cleaned(self, cleaned: CleanStats) -> None:
        self.bytes_read += cleaned.bytes_read
        self.bytes_written += cleaned.bytes_kept
        self.messages_read += cleaned.records_read
        self.messages_written += cleaned.records_kept
        self.invalid_messages_read += cleaned.invalid_records

    @property
    def elapsed_index_secs(self) -> float:
        return (self.map_done_ms - self.start_ms) / 1000

    @property
    def elapsed_secs(self) -> float:
        return (self.end_ms - self.start_ms) / 1000

    def report(self) -> str:
        """Return a line for people."""
        kept = self.bytes_written / self.bytes_read if self.bytes_read else 1.0
        return (
            f"{self.messages_read:,} records in {self.bytes_read / _MB:,.1f} MB became {self.messages_written:,} in"
            f" {self.bytes_written / _MB:,.1f} MB, {1 - kept:.1%} less; {self.elapsed_secs:.1f} s, of which"
            f" {self.elapsed_index_secs:.1f} s for the keys of {self.map_bytes_read / _MB:,.1f} MB, buffer"
            f" {self.buffer_utilization:.1%} full"
        )
