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
from tidelog.storage.cleaner.clean.clean_request import CleanerStats, CleanRequest, errors_with_file
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.parallel_map import ParallelMap
from tidelog.storage.cleaner.clean.segment_chunks import BatchTableCache, complete_chunks, validated
from tidelog.storage.log.state.log_segments import LogSegments
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_reader import Chunk


def build_offset_map(
    request: CleanRequest,
    segments: LogSegments[LogSegment],
    stats: CleanerStats,
    *,
    table_cache: BatchTableCache,
    threads: ParallelMap,
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
            _raise_latest_offset(request, keys.gap_end)
            all_in = put_keys(offset_map, keys.hashed, start_offset=start)
            stats.map_messages_read += _messages(keys.table, offset_map.latest_offset)
            if not all_in:
                return offset_map.latest_offset + 1
            stats.map_bytes_read += int(keys.table.size.sum())
            table_cache.add(keys.segment, keys.table)
    _raise_latest_offset(request, end - 1)
    return offset_map.latest_offset + 1


class _DirtyChunk(NamedTuple):
    segment: LogSegment
    chunk: Chunk
    wanted: npt.NDArray[np.bool_]
    """A mask of the batches whose keys count."""
    gap_end: int
    """The last offset before the segment, since offsets may be missing there; -1 for the first segment."""


class _ChunkKeys(NamedTuple):
    """The keys of a chunk, whose bytes are no longer needed."""

    segment: LogSegment
    table: BatchTable
    gap_end: int
    hashed: list[HashedKeys]


def _dirty_chunks(
    request: CleanRequest, segments: Sequence[LogSegment], transactions: CleanedTransactions
) -> Iterator[_DirtyChunk]:
    for number, segment in enumerate(segments):
        passed = segment.base_offset - 1 if number else -1
        position = segment.offset_index.lookup(request.first_dirty).position
        with errors_with_file(segment):
            for chunk in complete_chunks(segment, position, chunk_bytes=request.chunk_bytes):
                request.check_done()
                request.throttle(len(chunk.buffer))
                wanted = ~(chunk.table.is_control | transactions.decide(chunk).discardable)
                yield _DirtyChunk(segment, chunk, wanted, passed)


def _hash(request: CleanRequest, dirty: _DirtyChunk) -> _ChunkKeys:
    """Validate a chunk and hash its keys. Thread rule: any thread."""
    buffer, table, base_position = validated(dirty.segment, dirty.chunk)
    with errors_with_file(dirty.segment):
        hashed = hash_keys(
            request.offset_map,
            buffer,
            table,
            wanted=dirty.wanted,
            start_offset=request.first_dirty,
            base_position=base_position,
            max_record_bytes=request.log.config.max_decompressed_message_bytes,
        )
    return _ChunkKeys(dirty.segment, table, dirty.gap_end, hashed)


def _raise_latest_offset(request: CleanRequest, last_offset: int) -> None:
    request.offset_map.latest_offset = max(request.offset_map.latest_offset, last_offset)


def _messages(table: BatchTable, last_offset: int) -> int:
    passed = table.record_count[table.last_offset <= last_offset]
    return int(np.where(passed < 0, 1, passed).sum())
