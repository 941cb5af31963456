"""What it takes to clean a log, and what comes of it. Values, and the place of what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from tidelog.kernel import OffsetMap
from tidelog.model import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from tidelog.storage.cleaner.clean.cleaner_stats import CleanerStats
from tidelog.storage.index import AbortedTransaction
from tidelog.storage.log.config import LogConfig
from tidelog.storage.producer import LastRecord
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_draft import SegmentDraft


class CleanableLog(Protocol):
    """What cleaning asks of a log; a PartitionLog is one."""

    @property
    def config(self) -> LogConfig: ...
    @property
    def high_watermark(self) -> int: ...
    def aborted_transactions(self, start: int, end: int) -> tuple[AbortedTransaction, ...]: ...
    def last_records_of_active_producers(self) -> Mapping[int, LastRecord]: ...
    def draft_segment(self, base_offset: int) -> SegmentDraft: ...
    def replace_segments(self, new: Sequence[SegmentDraft], old: Sequence[LogSegment], *, cuts: int) -> None: ...
    def split_overflowed(self, segment: LogSegment) -> list[int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanRequest:
    log: CleanableLog
    first_dirty: int
    """Everything below was cleaned before."""
    first_uncleanable: int
    """The base offset of the first segment that stays as it is."""
    offset_map: OffsetMap
    """Nobody else's for as long; what is in it goes."""
    now_ms: int
    chunk_bytes: int
    check_done: Callable[[], None]
    throttle: Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    next_dirty_offset: int
    stats: CleanerStats


@contextmanager
def located(segment: LogSegment) -> Iterator[None]:
    """What is wrong with the segment's records says in which file they are."""
    try:
        yield
    except (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError) as error:
        if error.path is not None:
            raise
        raise type(error)(error.message, path=segment.path, position=error.position, offset=error.offset) from error
