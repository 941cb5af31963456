"""The first half of a clean: the offset map learns the last offset of each key in the dirty part.

It begins at the first dirty offset, which lies inside a segment if the last clean stopped there. It ends at the first
uncleanable offset or when the map is full; the next clean continues there. Control batches and aborted data are
skipped, because they make no record obsolete. Threads decompress chunks and hash their keys in parallel. The keys are
put into the map in log order. Nothing is written.

Thread rule: one thread per map. Source: Kafka's ``Cleaner.buildOffsetMap``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable, HashedKeys
from tidelog.record.cleaning import hash_keys, put_keys
from tidelog.storage.cleaner.clean.clean_request import CleanRequest, located
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.cleaner_stats import CleanerStats
from tidelog.storage.cleaner.clean.seen_batches import SeenBatches
from tidelog.storage.cleaner.clean.side_by_side import SideBySide
from tidelog.storage.cleaner.clean.sound_chunks import checked, whole_chunks
from tidelog.storage.log.state.log_segments import LogSegments
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_reader import Chunk


def build_offset_map(
    request: CleanRequest,
    segments: LogSegments[LogSegment],
    stats: CleanerStats,
    *,
    seen: SeenBatches,
    threads: SideBySide,
) -> int:
    """Clear and fill the request's map; return its end offset, or 0 if nothing is dirty. Add batches to ``seen``."""
    start, end = request.first_dirty, request.first_uncleanable
    offset_map = request.offset_map
    offset_map.clear()
    if start >= end:
        return 0
    transactions = CleanedTransactions()
    transactions.add(request.log.aborted_transactions(start, end))
    chunks = _dirty_chunks(request, segments.between(start, end), transactions)
    with closing(threads.results(partial(_hash, request), chunks)) as results:
        for keys in results:
            _pass_to(request, keys.passed)
            all_in = put_keys(offset_map, keys.hashed, start_offset=start)
            stats.map_messages_read += _messages(keys.table, offset_map.latest_offset)
            if not all_in:
                return offset_map.latest_offset + 1
            stats.map_bytes_read += int(keys.table.size.sum())
            seen.add(keys.segment, keys.table)
    _pass_to(request, end - 1)
    return offset_map.latest_offset + 1


class _Dirty(NamedTuple):
    segment: LogSegment
    chunk: Chunk
    wanted: npt.NDArray[np.bool_]
    """A mask of the batches whose keys count."""
    passed: int
    """The last offset before the segment, since offsets may be missing there; -1 for the first segment."""


class _Keys(NamedTuple):
    """The keys of a chunk, whose bytes are no longer needed."""

    segment: LogSegment
    table: BatchTable
    passed: int
    hashed: list[HashedKeys]


def _dirty_chunks(
    request: CleanRequest, segments: Sequence[LogSegment], transactions: CleanedTransactions
) -> Iterator[_Dirty]:
    for number, segment in enumerate(segments):
        passed = segment.base_offset - 1 if number else -1
        position = segment.offset_index.lookup(request.first_dirty).position
        with located(segment):
            for chunk in whole_chunks(segment, position, chunk_bytes=request.chunk_bytes):
                request.check_done()
                request.throttle(len(chunk.buffer))
                wanted = ~(chunk.table.is_control | transactions.judge(chunk).discardable)
                yield _Dirty(segment, chunk, wanted, passed)


def _hash(request: CleanRequest, dirty: _Dirty) -> _Keys:
    """Validate a chunk and hash its keys. Thread rule: any thread."""
    buffer, table, base_position = checked(dirty.segment, dirty.chunk)
    with located(dirty.segment):
        hashed = hash_keys(
            request.offset_map,
            buffer,
            table,
            wanted=dirty.wanted,
            start_offset=request.first_dirty,
            base_position=base_position,
            max_record_bytes=request.log.config.max_decompressed_message_bytes,
        )
    return _Keys(dirty.segment, table, dirty.passed, hashed)


def _pass_to(request: CleanRequest, last_offset: int) -> None:
    request.offset_map.latest_offset = max(request.offset_map.latest_offset, last_offset)


def _messages(table: BatchTable, last_offset: int) -> int:
    passed = table.record_count[table.last_offset <= last_offset]
    return int(np.where(passed < 0, 1, passed).sum())
