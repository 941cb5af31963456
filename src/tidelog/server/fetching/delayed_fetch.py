"""A delayed fetch: the condition that completes a fetch which has found fewer than ``min_bytes``.

=====================================================  =============================================================
the partition that has changed                         the fetch completes
=====================================================  =============================================================
cannot be read: new leader or epoch, deleted, offline  at once
ends before the fetch offset: it was truncated         at once
is throttled for this follower                         not by this partition
ends in another segment than the fetch offset          at once
ends in the same segment                               when all partitions together have ``min_bytes``; each counts
                                                       at most its ``partition_max_bytes``
has diverged from the fetcher's log                    at once
=====================================================  =============================================================

Thread rule: the event loop only. Source: Kafka's ``DelayedFetch``.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.model import LogOffsetMetadata, TidelogError
from tidelog.server.fetching.fetch_session import PartitionResult
from tidelog.server.fetching.partition_reads import FetchLimits
from tidelog.server.replicas.leading import NO_EPOCH
from tidelog.server.replicas.partition import Partition
from tidelog.storage.log.state.log_read import readable_end


class DelayedFetch:
    """The condition of one delayed fetch. ``partitions`` are the partitions to watch."""

    def __init__(self, results: Iterable[PartitionResult], limits: FetchLimits) -> None:
        self._limits = limits
        self._pending = {result.partition: result for result in results if result.partition is not None}
        self._available = dict.fromkeys(self._pending, 0)
        self.partitions: tuple[Partition, ...] = tuple(self._pending)

    def is_ready(self, changed: Partition) -> bool:
        """Return True if the fetch can complete after ``changed`` has changed; a condition of ``wait_until``."""
        result = self._pending[changed]
        available = None if result.start is None else self._bytes_available(changed, result, result.start)
        if available is None:
            return True
        self._available[changed] = available
        return sum(self._available.values()) >= self._limits.min_bytes

    def _bytes_available(self, partition: Partition, result: PartitionResult, start: LogOffsetMetadata) -> int | None:
        """Return the readable bytes, or None if the fetch must complete at once."""
        wanted = result.cached.wanted
        try:
            offsets = partition.offsets(wanted.current_leader_epoch, leader_only=self._limits.leader_only)
            end = readable_end(offsets, self._limits.isolation)
            if wanted.last_fetched_epoch != NO_EPOCH and self._diverges(partition, wanted.last_fetched_epoch, start):
                return None
        except TidelogError:
            return None
        if start.message_offset == end.message_offset:
            return 0
        if start.message_offset < end.message_offset and self._limits.throttles(partition):
            return 0
        if start.message_offset > end.message_offset or not start.is_on_same_segment(end):
            return None
        return min(end.bytes_after(start), wanted.partition_max_bytes)

    def _diverges(self, partition: Partition, last_fetched_epoch: int, start: LogOffsetMetadata) -> bool:
        return partition.log.epochs.diverging(last_fetched_epoch, start.message_offset) is not None
