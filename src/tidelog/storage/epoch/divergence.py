"""The point where two replicas' logs diverge: the leader's check and the follower's truncation.

The functions are pure. A follower fetches with the epoch of its last batch, and the leader compares:

==================================================  ==========================================================
the leader's end offset of that epoch               the leader's response
==================================================  ==========================================================
unknown, or a fetch offset below the log start      OffsetOutOfRangeError: the follower starts over
of a smaller epoch, or below the fetch offset       diverging: that epoch and its end offset
else                                                no divergence: the follower's log is a valid prefix
==================================================  ==========================================================

The follower truncates and fetches again until both logs share its latest epoch:

==================================================  ==========================================================
the follower's largest epoch not above the          it truncates to
leader's
==================================================  ==========================================================
none is known                                       the leader's end offset, complete
the same                                            the smaller of both end offsets of that epoch, complete
a smaller one                                       its own end offset of that epoch, not complete
==================================================  ==========================================================

It never truncates to an offset above its own log end. Source: Kafka's ``Partition.readRecords`` and
``AbstractFetcherThread.getOffsetTruncationState`` (KIP-101, KIP-595).
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model import OffsetOutOfRangeError
from tidelog.storage.epoch.leader_epoch_cache import EpochEndOffset, LeaderEpochCache


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerTruncation:
    offset: int
    is_complete: bool
    """False if the follower has to ask for an older epoch."""


def diverging_epoch(
    epochs: LeaderEpochCache, *, log_start: int, log_end: int, last_fetched_epoch: int, fetch_offset: int
) -> EpochEndOffset | None:
    """Return, as the leader, the diverging epoch and its end, or None. Raise OffsetOutOfRangeError as in the table."""
    answer = epochs.end_offset_for(last_fetched_epoch, log_end)
    if answer is None:
        raise OffsetOutOfRangeError(
            f"the end of the last fetched epoch {last_fetched_epoch} is not known", offset=fetch_offset
        )
    if fetch_offset < log_start:
        raise OffsetOutOfRangeError(f"the fetch offset is below the log start {log_start}", offset=fetch_offset)
    if answer.epoch < last_fetched_epoch or answer.end_offset < fetch_offset:
        return answer
    return None


def follower_truncation(epochs: LeaderEpochCache, log_end: int, leader: EpochEndOffset) -> FollowerTruncation:
    """Return the truncation of a follower that received the diverging epoch ``leader`` from its leader."""
    own = epochs.end_offset_for(leader.epoch, log_end)
    if own is None:
        return FollowerTruncation(offset=min(leader.end_offset, log_end), is_complete=True)
    if own.epoch != leader.epoch:
        return FollowerTruncation(offset=min(own.end_offset, log_end), is_complete=False)
    return FollowerTruncation(offset=min(own.end_offset, leader.end_offset, log_end), is_complete=True)
