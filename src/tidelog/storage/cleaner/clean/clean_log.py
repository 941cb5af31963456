"""Clean one log: for each key of its dirty part, what is older goes from the log.

1. The offset map learns the keys from the first dirty to the first uncleanable offset (``dirty_keys``).
2. The segments below the offset that it reached are grouped (``segment_groups``).
3. Each group, oldest first, is rewritten into one segment, which takes its place (``group_rewrite``): as soon as it is
   written; or, ``at_once``, all together when the last one is, which takes as much space as the log will have.

A clean that ends early, by a crash, an abort or an error, leaves groups that are done and groups that are as they were:
the log reads the same either way, and the next clean begins where this one did, for whoever calls notes the next dirty
offset only in the end. Memory: the map, a bit for each offset in it and the tables of the batches that were read for it
(8 MiB of each at most), and a few chunks.

Called by: the cleaner's threads, the offline compaction. Thread rule: one clean a log at a time; the log is appended to
and read meanwhile, and whoever truncates or deletes it ends the clean (``check_done``).
Source: Kafka's ``Cleaner.doClean``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.kernel import OffsetMap
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.storage.cleaner.clean.clean_request import CleanRequest, CleanResult
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.cleaner_stats import CleanerStats
from tidelog.storage.cleaner.clean.dirty_keys import build_offset_map
from tidelog.storage.cleaner.clean.group_rewrite import GroupRewrite
from tidelog.storage.cleaner.clean.seen_batches import SeenBatches
from tidelog.storage.cleaner.clean.segment_groups import SegmentSizes, group_segments
from tidelog.storage.cleaner.clean.side_by_side import SideBySide
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.segments import LogSegments

_log = logging.getLogger(__name__)

CHUNK_BYTES = 2 * 1024 * 1024
"""A chunk costs Python as much as some 100 kB of it cost the kernels."""


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
    """Clean ``log`` up to the segment of ``first_uncleanable``, or to where keys fill the map; where the next begins.

    ``check_done``: called for every chunk, raises LogCleaningAbortedError to end the clean. ``throttle``: told the
    bytes that were read or written, may wait. ``chunk_bytes``: how much is read at once, some five times of which are
    in memory; a larger batch is taken whole. ``at_once``: as the module says.
    CorruptRecordError, with file, position and offset, where the log is damaged; StorageError where the disk fails.
    """
    cuts, segments = log.cuts, LogSegments(log.segments)
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
    seen = SeenBatches()
    with SideBySide() as threads:
        end_offset = build_offset_map(request, segments, stats, seen=seen, threads=threads)
        stats.map_done_ms = clock.monotonic_ms()
        clean_part = segments.between(0, first_dirty)
        cleaned = segments.between(0, end_offset)
        sizes = [SegmentSizes.of(segment) for segment in cleaned]
        groups = group_segments(sizes, log.config, first_uncleanable=request.first_uncleanable)
        rewrite = GroupRewrite(
            request=request,
            transactions=CleanedTransactions(),
            legacy_delete_horizon_ms=clean_part[-1].modified_ms - log.config.delete_retention_ms if clean_part else 0,
            cuts=cuts,
            stats=stats,
            threads=threads,
            seen=seen,
        )
        rewrite.rewrite([cleaned[group.start : group.stop] for group in groups], at_once=at_once)
    stats.buffer_utilization = offset_map.utilization
    stats.end_ms = clock.monotonic_ms()
    _log.info("Cleaned %s up to offset %d: %s", log.directory.name, end_offset, stats.report())
    return CleanResult(next_dirty_offset=max(first_dirty, end_offset), stats=stats)
