"""The clean of a log: for each key of its dirty part, older records are removed from the log.

1. The offset map learns the keys from the first dirty to the first uncleanable offset (``dirty_keys``).
2. The segments below the offset that the map reached are grouped (``segment_groups``).
3. Each group, oldest first, is rewritten into a segment that replaces it (``group_rewrite``). By default each group is
   replaced as soon as its new segment is on disk. With ``at_once``, all groups are replaced together after the last
   one, which needs disk space for the complete new log.

A clean that ends early (crash, abort, error) leaves some groups replaced and the others unchanged. The log reads the
same either way. The caller saves the next dirty offset only after the clean, so the next one begins at the same offset.
Memory: the map, a bit for each offset in it, the tables of the batches read for it (each at most 8 MiB), a few chunks.

Thread rule: one clean per log at a time. Appends and reads may run meanwhile; a truncation or deletion ends the clean
through ``check_done``. Source: Kafka's ``Cleaner.doClean``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.kernel import OffsetMap
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.storage.cleaner.clean.clean_request import CleanerStats, CleanRequest, CleanResult
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.dirty_keys import build_offset_map
from tidelog.storage.cleaner.clean.group_rewrite import GroupRewrite
from tidelog.storage.cleaner.clean.parallel_map import ParallelMap
from tidelog.storage.cleaner.clean.segment_chunks import BatchTableCache
from tidelog.storage.cleaner.clean.segment_groups import SegmentSizes, group_segments
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_segments import LogSegments

_log = logging.getLogger(__name__)

CHUNK_BYTES = 2 * 1024 * 1024
"""The Python code's cost per chunk equals the kernels' cost for about 100 kB, so chunks are large."""


def clean_log(
    log: PartitionLog,
    *,
    first_dirty: int,
    first_uncleanable: int,
    offset_map: OffsetMap,
    clock: Clock = SYSTEM_CLOCK,
    check_done: Callable[[], None] = lambda: None,
    throttle: Callable[[int], None] = lambda _bytes: None,
    chunk_bytes: int = CHUNK_BYTES,
    at_once: bool = False,
) -> CleanResult:
    """Clean ``log`` up to the segment of ``first_uncleanable``, or until the map is full; return the next dirty offset.

    ``check_done`` runs for every chunk and raises LogCleaningAbortedError to end the clean. ``throttle`` gets the
    number of bytes read or written, and may wait. ``chunk_bytes`` is the size of a read; about five times as much is in
    memory, and a larger batch is read as a whole. ``at_once``: see the module.
    Raise CorruptRecordError (file, position, offset) if the log is damaged. Raise StorageError if the disk fails.
    """
    truncation_count, segments = log.truncation_count, LogSegments(log.segments)
    uncleanable = segments.floor(first_uncleanable) or segments.first
    stats = CleanerStats(start_ms=clock.monotonic_ms())
    request = CleanRequest(
        log=log,
        first_dirty=first_dirty,
        first_uncleanable=uncleanable.base_offset,
        offset_map=offset_map,
        now_ms=clock.now_ms(),
        chunk_bytes=chunk_bytes,
        check_done=check_done,
        throttle=throttle,
    )
    check_done()
    table_cache = BatchTableCache()
    with ParallelMap() as threads:
        end_offset = build_offset_map(request, segments, stats, table_cache=table_cache, threads=threads)
        stats.map_done_ms = clock.monotonic_ms()
        clean_part = segments.between(0, first_dirty)
        cleaned = segments.between(0, end_offset)
        sizes = [SegmentSizes.of(segment) for segment in cleaned]
        groups = group_segments(sizes, log.config, first_uncleanable=request.first_uncleanable)
        rewrite = GroupRewrite(
            request=request,
            transactions=CleanedTransactions(),
            legacy_delete_horizon_ms=clean_part[-1].modified_ms - log.config.delete_retention_ms if clean_part else 0,
            truncation_count=truncation_count,
            stats=stats,
            threads=threads,
            table_cache=table_cache,
        )
        rewrite.rewrite([cleaned[group.start : group.stop] for group in groups], at_once=at_once)
    stats.buffer_utilization = offset_map.utilization
    stats.end_ms = clock.monotonic_ms()
    _log.info("Cleaned %s up to offset %d: %s", log.directory.name, end_offset, stats.report())
    return CleanResult(next_dirty_offset=max(first_dirty, end_offset), stats=stats)
