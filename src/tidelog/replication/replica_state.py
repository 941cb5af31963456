"""A leader's knowledge of one follower, as an immutable value, and how a fetch changes it.

A follower is caught up at time t if its log end was at or above the leader's log end of time t. A fetch shows that:

==============================================================  ==================================================
the fetch offset is                                             the follower was caught up at
==============================================================  ==================================================
at or above the leader's log end                                the time of this fetch
at or above the leader's log end at the previous fetch          the time of the previous fetch
else                                                            no later time than before
==============================================================  ==================================================

So a follower that always fetches, but never reaches the end of a growing log, stays in sync. Source: Kafka's
``Replica`` and ``ReplicaState``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidelog.model import LogOffsetMetadata

NEVER_MS = -(2**62)
"""A time before all others."""
UNKNOWN_OFFSET = -1
UNKNOWN_LOG_END = LogOffsetMetadata(UNKNOWN_OFFSET)
ANY_BROKER_EPOCH = -1
"""The broker epoch of a follower that does not send one (Fetch before version 15)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetch:
    """A follower's fetch that the leader has read without an error and without a divergence."""

    replica_id: int
    offset: LogOffsetMetadata
    """The fetch offset: the follower has all records below it."""
    log_start_offset: int
    leader_end_offset: int
    """The leader's log end when it read for the response."""
    now_ms: int
    """The time at which the request arrived."""
    broker_epoch: int = ANY_BROKER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """The state of a follower; the defaults are those before its first fetch."""

    log_end: LogOffsetMetadata = UNKNOWN_LOG_END
    log_start_offset: int = UNKNOWN_OFFSET
    leader_end_at_last_fetch: int = 0
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS
    broker_epoch: int | None = None
    """None before the first fetch: it cannot join the in-sync replicas then."""

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Return True if it has the leader's whole log now, or had it at most ``lag_time_max_ms`` ago."""
        at_end = self.log_end.message_offset == leader_end_offset
        return at_end or now_ms - self.last_caught_up_ms <= lag_time_max_ms

    def after_fetch(self, fetch: FollowerFetch) -> ReplicaState:
        """Return the state after a fetch; see the module's table."""
        caught_up_ms = self.last_caught_up_ms
        if fetch.offset.message_offset >= fetch.leader_end_offset:
            caught_up_ms = max(caught_up_ms, fetch.now_ms)
        elif fetch.offset.message_offset >= self.leader_end_at_last_fetch:
            caught_up_ms = max(caught_up_ms, self.last_fetch_ms)
        return ReplicaState(
            log_end=fetch.offset,
            log_start_offset=fetch.log_start_offset,
            leader_end_at_last_fetch=max(fetch.leader_end_offset, self.leader_end_at_last_fetch),
            last_fetch_ms=fetch.now_ms,
            last_caught_up_ms=caught_up_ms,
            broker_epoch=fetch.broker_epoch,
        )

    def in_new_epoch(
        self, *, leader_end_offset: int, now_ms: int, is_new_leader: bool, is_in_sync: bool
    ) -> ReplicaState:
        """Return the state at the start of a leader epoch.

        An in-sync replica counts as caught up now, so it has the whole lag time for its first fetch. A leader that is
        elected again keeps the follower's log end.
        """
        caught_up_ms = now_ms if is_in_sync else NEVER_MS
        if is_new_leader:
            return ReplicaState(leader_end_at_last_fetch=UNKNOWN_OFFSET, last_caught_up_ms=caught_up_ms)
        return replace(
            self,
            leader_end_at_last_fetch=leader_end_offset,
            last_fetch_ms=caught_up_ms,
            last_caught_up_ms=caught_up_ms,
        )
