"""The first half of a clean: the offset map learns the last offset of each key in the dirty part of a log.

It begins at the first dirty offset, in the middle of a segment where a clean stopped there, and ends at the first
uncleanable one, or where the map is full: what lies behind is the next clean's. Control batches and aborted data are
passed over, as they make nothing obsolete. Chunks are opened and their keys hashed side by side, and put in the order
of the log. Nothing is written.

Called by: ``clean_log``. Thread rule: one thread a map. Source: Kafka's ``Cleaner.buildOffsetMap``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable, HashedKeys
from tidelog.record.cleaning import hash_keys, put_keys
from tidelog.storage.cleaner.clean.clean_request import CleanRequest, located
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.cleaner_stats import CleanerStats
from tidelog.storage.cleaner.clean.side_by_side import SideBySide
from tidelog.storage.cleaner.clean.sound_chunks import sound_chunks
from tidelog.storage.log.segments import LogSegments
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_reader import Chunk


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
    with SideBySide() as threads:
        keys = _Keys(request=request, transactions=transactions, stats=stats, threads=threads)
        for segment, segment_end in zip(dirty, ends, strict=True):
            with located(segment):
                if not keys.add(segment):
                    break
            _pass_to(request, segment_end - 1)  # where offsets are missing at the end of the segment
    return request.offset_map.latest_offset + 1


class _Dirty(NamedTuple):
    chunk: Chunk
    wanted: npt.NDArray[np.bool_]
    """The batches whose keys count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """On their way into the map."""

    request: CleanRequest
    transactions: CleanedTransactions
    stats: CleanerStats
    threads: SideBySide

    def add(self, segment: LogSegment) -> bool:
        """False where the map became full."""
        offset_map = self.request.offset_map
        for chunk, hashed in self.threads.results(self._hash, self._chunks(segment)):
            all_in = put_keys(offset_map, hashed, start_offset=self.request.first_dirty)
            self.stats.map_messages_read += _messages(chunk.table, offset_map.latest_offset)
            if not all_in:
                return False
            self.stats.map_bytes_read += chunk.table.end_position - chunk.base_position
        return True

    def _chunks(self, segment: LogSegment) -> Iterator[_Dirty]:
        request = self.request
        position = segment.offset_index.lookup(request.first_dirty).position
        for chunk in sound_chunks(segment, position, chunk_bytes=request.chunk_bytes):
            request.check_done()
            request.throttle(len(chunk.buffer))
            yield _Dirty(chunk, ~(chunk.table.is_control | self.transactions.judge(chunk).discardable))

    def _hash(self, dirty: _Dirty) -> tuple[Chunk, list[HashedKeys]]:
        """In any thread."""
        buffer, table, base_position = dirty.chunk
        hashed = hash_keys(
            self.request.offset_map,
            buffer,
            table,
            wanted=dirty.wanted,
            start_offset=self.request.first_dirty,
            base_position=base_position,
        )
        return dirty.chunk, hashed


def _pass_to(request: CleanRequest, last_offset: int) -> None:
    request.offset_map.latest_offset = max(request.offset_map.latest_offset, last_offset)


def _messages(table: BatchTable, last_offset: int) -> int:
    passed = table.record_count[table.last_offset <= last_offset]
    return int(np.where(passed < 0, 1, passed).sum())
