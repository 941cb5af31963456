"""Where two replicas' logs part: a leader's answer to a fetch, and what a follower cuts on it. Pure (KIP-101, KIP-595).

A follower fetches with the epoch of its last batch. The leader compares:

==================================================  ==========================================================
the leader's end offset of that epoch               the answer
==================================================  ==========================================================
not known                                           OffsetOutOfRangeError: the follower begins anew
of a smaller epoch, or below the fetch offset       they diverge: that epoch and its end offset
else                                                none: the follower's log is part of the leader's
==================================================  ==========================================================

The follower cuts, and asks again until it has no epoch that the leader does not have:

==================================================  ==========================================================
the follower's largest epoch not above the          it cuts at
leader's
==================================================  ==========================================================
none is known                                       the leader's end offset; done
the same                                            the smaller of both end offsets of that epoch; done
a smaller one                                       its own end offset of that one; not done
==================================================  ==========================================================

It never cuts above its own log end. Called by: PartitionLog. Source: Kafka's ``Partition.readRecords`` and
``AbstractFetcherThread.getOffsetTruncationState``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model import OffsetOutOfRangeError
from tidelog.storage.epoch.leader_epoch_cache import EpochEndOffset, LeaderEpochCache


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerTruncation:
    offset: int
    is_complete: bool
    """False: an older epoch has to be asked for."""


def diverging_epoch(
    epochs: LeaderEpochCache, *, log_start: int, log_end: int, last_fetched_epoch: int, fetch_offset: int
) -> EpochEndOffset | None:
    """As the leader. OffsetOutOfRangeError, with the fetch offset, also below the log start."""
    answer = epochs.end_offset_for(last_fetched_epoch, log_end)
    if answer is None:
        raise OffsetOutOfRangeError(
            f"the end of the last fetched epoch {last_fetched_epoch} is not known", offset=fetch_offset
        )
    if fetch_offset < log_start:
        raise OffsetOutOfRangeError(f"the log begins at {log_start}", offset=fetch_offset)
    if answer.epoch < last_fetched_epoch or answer.end_offset < fetch_offset:
        return answer
    return None


def follower_truncation(epochs: LeaderEpochCache, log_end: int, leader: EpochEndOffset) -> FollowerTruncation:
    """As the follower whose leader answered ``leader``."""
    own = epochs.end_offset_for(leader.epoch, log_end)
    if own is None:
        return FollowerTruncation(offset=min(leader.end_offset, log_end), is_complete=True)
    if own.epoch != leader.epoch:
        return FollowerTruncation(offset=min(own.end_offset, log_end), is_complete=False)
    return FollowerTruncation(offset=min(own.end_offset, leader.end_offset, log_end), is_complete=True)
