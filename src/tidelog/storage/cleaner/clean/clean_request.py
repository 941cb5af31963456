"""The request for a clean, its result, and the file names of its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from tidelog.kernel import OffsetMap
from tidelog.model import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from tidelog.storage.cleaner.clean.cleaner_stats import CleanerStats
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
