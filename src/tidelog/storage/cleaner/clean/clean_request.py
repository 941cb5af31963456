"""What it takes to clean a log, and what comes of it. Values, and the place of what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidelog.kernel import OffsetMap
from tidelog.model import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from tidelog.storage.cleaner.clean.cleaner_stats import CleanerStats
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanRequest:
    log: PartitionLog
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
