"""The first half of a clean: the offset map learns the last offset of each key in the dirty part of a log.

It begins at the first dirty offset, in the middle of a segment where a clean stopped there, and ends at the first
uncleanable one, or where the map is full: what lies behind is the next clean's. Control batches and aborted data are
passed over, as they make nothing obsolete. Nothing is written.

Called by: ``clean_log``. Thread rule: one thread a map. Source: Kafka's ``Cleaner.buildOffsetMap``.
"""

from __future__ import annotations

import numpy as np

from tidelog.kernel import BatchTable
from tidelog.record.cleaning import put_keys
from tidelog.storage.cleaner.clean.clean_request import CleanRequest, located
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.cleaner_stats import CleanerStats
from tidelog.storage.cleaner.clean.sound_chunks import sound_chunks
from tidelog.storage.log.segments import LogSegments
from tidelog.storage.segment.segment import LogSegment


def build_offset_map(request: CleanRequest, segments: LogSegments[LogSegment], stats: CleanerStats) -> int:
    """Fill the request's map, from empty; where it ends, and 0 where nothing is dirty."""
    start, end = request.first_dirty, request.first_uncleanable
    request.offset_map.clear()
    if start >= end:
        return 0
    transactions = CleanedTransactions()
    transactions.add(request.log.aborted_transactions(start, end))
    dirty = segments.between(start, end)
    ends = [*(segment.base_offset for segment in dirty[1:]), end]
    for segment, segment_end in zip(dirty, ends, strict=True):
        with located(segment):
            if not _add_segment(request, segment, transactions, stats):
                break
        _pass_to(request, segment_end - 1)  # where offsets are missing at the end of the segment
    return request.offset_map.latest_offset + 1


def _add_segment(
    request: CleanRequest, segment: LogSegment, transactions: CleanedTransactions, stats: CleanerStats
) -> bool:
    """False where the map became full."""
    position = segment.offset_index.lookup(request.first_dirty).position
    for chunk in sound_chunks(segment, position, chunk_bytes=request.chunk_bytes):
        table = chunk.table
        request.check_done()
        request.throttle(len(chunk.buffer))
        wanted = ~(table.is_control | transactions.judge(chunk).discardable)
        all_in = put_keys(
            request.offset_map,
            chunk.buffer,
            table,
            wanted=wanted,
            start_offset=request.first_dirty,
            base_position=chunk.base_position,
        )
        stats.map_messages_read += _messages(table, request.offset_map.latest_offset)
        if not all_in:
            return False
        stats.map_bytes_read += table.end_position - chunk.base_position
    return True


def _pass_to(request: CleanRequest, last_offset: int) -> None:
    request.offset_map.latest_offset = max(request.offset_map.latest_offset, last_offset)


def _messages(table: BatchTable, last_offset: int) -> int:
    passed = table.record_count[table.last_offset <= last_offset]
    return int(np.where(passed < 0, 1, passed).sum())
