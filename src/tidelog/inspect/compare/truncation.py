"""The truncation of a replica that follows a leader, from both replicas' leader epochs (KIP-101, KIP-279).

The engine's rules ``diverging_epoch`` and ``follower_truncation`` are applied until the leader sends records, as
``replication.Follower`` does it by requests:

========================================================  ====================================================
the follower                                              it truncates to
========================================================  ====================================================
has no epochs                                             its high watermark
receives a diverging epoch                                the offset of ``follower_truncation``, and asks again
is out of the leader's range, above the leader's end      the leader's log end, and asks again
is out of the leader's range, below the leader's start    nothing is kept: it starts over at the leader's start
========================================================  ====================================================

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.model import OffsetOutOfRangeError
from tidelog.storage.epoch import EpochEntry, LeaderEpochCache, diverging_epoch, follower_truncation


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLog:
    """A log's range and its leader epochs."""

    log_start: int
    log_end: int
    high_watermark: int
    epochs: tuple[EpochEntry, ...] = ()

    def leading(self, epoch: int) -> EpochLog:
        """Return the log of a leader in ``epoch``, which begins at the log end unless the log has it."""
        cache = self._cache()
        cache.assign(max(epoch, -1 if cache.latest_epoch is None else cache.latest_epoch, 0), self.log_end)
        return EpochLog(
            log_start=self.log_start,
            log_end=self.log_end,
            high_watermark=self.high_watermark,
            epochs=cache.entries,
        )

    def _cache(self) -> LeaderEpochCache:
        return epoch_cache(self.epochs, self.log_end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """The offset from which records are removed. It is the log end if none are."""

    offset: int
    starts_over_at: int | None = None
    """The leader's log start, if the follower removes all records and continues there."""


def epoch_cache(entries: Iterable[EpochEntry], log_end: int) -> LeaderEpochCache:
    """Return the cache of a log that ends at ``log_end``: a crash can leave epochs in the file above it."""
    cache = LeaderEpochCache(entries)
    cache.truncate_from_end(log_end)
    return cache


def truncation_of(follower: EpochLog, leader: EpochLog) -> Truncation:
    """Return the truncation of ``follower`` before the leader sends it records."""
    cache, leaders = epoch_cache(follower.epochs, follower.log_end), LeaderEpochCache(leader.epochs)
    end = follower.log_end
    if cache.latest_epoch is None:
        end = min(end, max(follower.high_watermark, follower.log_start))
    while True:
        latest = cache.latest_epoch
        try:
            if latest is None:
                if leader.log_start <= end <= leader.log_end:
                    return Truncation(offset=end)
                raise OffsetOutOfRangeError("the leader does not have the offset", offset=end)
            diverging = diverging_epoch(
                leaders, log_start=leader.log_start, log_end=leader.log_end, last_fetched_epoch=latest, fetch_offset=end
            )
        except OffsetOutOfRangeError:
            truncated = min(end, leader.log_end)
            if truncated == end:
                is_below = leader.log_start > end
                return Truncation(offset=end, starts_over_at=leader.log_start if is_below else None)
        else:
            if diverging is None:
                return Truncation(offset=end)
            truncated = follower_truncation(cache, end, diverging).offset
            if truncated == end:
                return Truncation(offset=end)
        end = truncated
        cache.truncate_from_end(end)
