"""The read of a partition log over its segments. Thread rule: any thread, without a lock.

=====================  ==============================  =====================================
isolation              last readable offset            aborted transactions
=====================  ==============================  =====================================
LOG_END                log end                         None
READ_UNCOMMITTED       high watermark                  None
READ_COMMITTED         last stable offset              those with records in the range read
=====================  ==============================  =====================================

A read that starts between the limit and the log end, both included, reads nothing. A start above the log end or below
the log start is out of range. Source: Kafka's ``LocalLog.read``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidelog.model import Isolation, LogOffsetMetadata, LogOffsetSnapshot, OffsetOutOfRangeError
from tidelog.storage.epoch import EpochEndOffset
from tidelog.storage.index import AbortedTxn
from tidelog.storage.log.state.log_segments import LogSegments
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_read import SegmentRead


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReadRequest:
    """A read's start and bounds. ``min_one_message``: the first batch is complete, even if above ``max_bytes``."""

    start_offset: int
    max_bytes: int
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    min_one_message: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead:
    """The batches found; ``batches`` is None if nothing is readable at ``start``. The last batch may be partial."""

    start: LogOffsetMetadata
    offsets: LogOffsetSnapshot
    batches: SegmentRead | None = None
    aborted: tuple[AbortedTxn, ...] | None = None
    """None unless the isolation is READ_COMMITTED."""
    diverging: EpochEndOffset | None = None
    """The end of the reader's last epoch here, if its log diverges (KIP-595): nothing was read then."""

    def data(self) -> bytes:
        return b"" if self.batches is None else self.batches.data()


def read_segments(
    segments: LogSegments[LogSegment], offsets: LogOffsetSnapshot, request: LogReadRequest, directory: Path
) -> LogRead:
    """Read batches. Raise OffsetOutOfRangeError (start outside the log) or ValueError (negative ``max_bytes``)."""
    start = request.start_offset
    if not offsets.log_start <= start <= offsets.log_end.message_offset:
        raise OffsetOutOfRangeError(
            f"the log holds [{offsets.log_start}, {offsets.log_end.message_offset})", path=directory, offset=start
        )
    limit = readable_end(offsets, request.isolation)
    committed = request.isolation is Isolation.READ_COMMITTED
    if request.max_bytes < 0:
        raise ValueError(f"max_bytes is {request.max_bytes}")
    if start < limit.message_offset:
        candidates = segments.between(start)
        if not candidates or candidates[0].base_offset > start:
            raise OffsetOutOfRangeError("the segment was removed during the read", path=directory, offset=start)
        for segment in candidates:
            if segment.base_offset >= limit.message_offset:
                break  # compaction has since replaced the segment that the limit refers to
            ends_here = segment.base_offset == limit.segment_base_offset
            found = segment.read(
                start,
                max_bytes=request.max_bytes,
                max_position=limit.position_in_segment if ends_here else None,
                min_one_message=request.min_one_message,
            )
            if found is not None:
                aborted = _aborted(segments, segment, offsets, found) if committed else None
                return LogRead(start=found.start, offsets=offsets, batches=found, aborted=aborted)
            if ends_here:
                break
    place = limit if start == limit.message_offset else resolve_offset(segments, start, offsets.log_end)
    return LogRead(start=place, offsets=offsets, aborted=() if committed else None)


def readable_end(offsets: LogOffsetSnapshot, isolation: Isolation) -> LogOffsetMetadata:
    """Return the end of the offsets that a read with this isolation may see."""
    if isolation is Isolation.LOG_END:
        return offsets.log_end
    return offsets.high_watermark if isolation is Isolation.READ_UNCOMMITTED else offsets.last_stable


def resolve_offset(segments: LogSegments[LogSegment], offset: int, log_end: LogOffsetMetadata) -> LogOffsetMetadata:
    """Return ``offset`` with the segment and position of the first batch that ends at or above it, else the log end."""
    if offset >= log_end.message_offset:
        return log_end
    for segment in segments.between(offset):
        found = segment.translate_offset(offset)
        if found is not None:
            return LogOffsetMetadata(offset, segment.base_offset, found.position)
    return log_end


def _aborted(
    segments: LogSegments[LogSegment], segment: LogSegment, offsets: LogOffsetSnapshot, found: SegmentRead
) -> tuple[AbortedTxn, ...]:
    start = found.start.message_offset
    end = segment.upper_bound_offset(found)
    if end is None:
        following = segments.higher(segment.base_offset)
        end = offsets.log_end.message_offset if following is None else following.base_offset
    return collect_aborted(segments, segment.base_offset, start, end)


def collect_aborted(
    segments: LogSegments[LogSegment], first_base_offset: int, start: int, end: int
) -> tuple[AbortedTxn, ...]:
    """Return aborted transactions with records in [start, end).

    Read the transaction indexes from ``first_base_offset`` on, until one shows that no later index can hold others.
    """
    gathered: list[AbortedTxn] = []
    for segment in segments.between(first_base_offset):
        answer = segment.collect_aborted(start, end)
        gathered += answer.transactions
        if answer.complete:
            break
    return tuple(gathered)
