"""The fetch sessions of a broker: at most so many; a new one may take the place of one that is worth less.

====================================================  ==============================================================
a session                                             may lose its place to
====================================================  ==============================================================
not used for ``EVICTION_MS``                          any new one
a consumer's                                          a follower's
that is older than that, a consumer's                 a new one that follows at least as many partitions
that is older than that, a follower's                 a follower's that follows at least as many
====================================================  ==============================================================

Among several the least used goes, or the smallest. A client whose session is gone is told so, and begins a new one.
Sessions outlive connections, and a few bytes make the broker look at all partitions of one: so they have only so many,
and a client that follows more names them each time. Kafka has no such limit.
Called by: fetch_context. Thread rule: the loop's. Source: Kafka's ``FetchSessionCacheShard`` (with one shard).
"""

from __future__ import annotations

import random
from typing import Final

from tidelog.server.fetching.fetch_session import NO_SESSION, FetchSession, FollowedPartition, PartitionKey

EVICTION_MS: Final = 120_000
MOST_PARTITIONS: Final = 20_000
"""Of one session."""
MOST_OF_ALL: Final = 500_000
"""Of all of them together."""
_MAX_ID: Final = 2**31 - 1


class SessionCache:
    def __init__(self, slots: int) -> None:
        """``slots``: 0 for no sessions at all."""
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}
        """The least recently used first."""
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Of all sessions together."""
        return sum(len(session.partitions) for session in list(self._sessions.values()))

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> None:
        """Nothing where there is none."""
        self._sessions.pop(session_id, None)

    def touch(self, session: FetchSession, now_ms: int) -> None:
        """It is used."""
        session.last_used_ms = now_ms
        session.size_when_used = len(session.partitions)
        self._sessions[session.id] = self._sessions.pop(session.id)

    def maybe_create(
        self,
        partitions: dict[PartitionKey, FollowedPartition],
        *,
        is_privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> int:
        """The id of a new session, ``NO_SESSION`` where there is no place for it."""
        if not self._has_room(partitions, now_ms):
            return NO_SESSION
        if len(self._sessions) >= self._slots and not self._evict((is_privileged, len(partitions), 0), now_ms):
            return NO_SESSION
        session = FetchSession(
            self._new_id(), partitions, is_privileged=is_privileged, uses_topic_ids=uses_topic_ids, now_ms=now_ms
        )
        self._sessions[session.id] = session
        return session.id

    def may_keep(self, session: FetchSession) -> bool:
        """Whether one that has grown may stay; if not, it is gone."""
        if len(session.partitions) <= MOST_PARTITIONS and self.partition_count <= MOST_OF_ALL:
            return True
        self.remove(session.id)
        return False

    def _has_room(self, partitions: dict[PartitionKey, FollowedPartition], now_ms: int) -> bool:
        """For so many more; sessions that nobody uses make some."""
        if len(partitions) > MOST_PARTITIONS:
            return False
        while self.partition_count + len(partitions) > MOST_OF_ALL:
            stale = next(iter(self._sessions.values()))
            if now_ms - stale.last_used_ms <= EVICTION_MS:
                return False
            self.remove(stale.id)
            self.evictions += 1
        return True

    def _evict(self, newcomer: tuple[bool, int, int], now_ms: int) -> bool:
        """Make one place for a session of that rank, if it may have one."""
        stale = next(iter(self._sessions.values()), None)
        if stale is None:
            return False
        if now_ms - stale.last_used_ms <= EVICTION_MS:
            is_privileged = newcomer[0]
            candidates = [session for session in self._sessions.values() if _is_evictable(session, is_privileged)]
            stale = min(candidates, key=_rank, default=None)
            if stale is None or newcomer < _rank(stale):
                return False
        self.remove(stale.id)
        self.evictions += 1
        return True

    def _new_id(self) -> int:
        """Not to be guessed from others: who knows it may fetch in its name."""
        while True:
            session_id = random.SystemRandom().randint(1, _MAX_ID)
            if session_id not in self._sessions:
                return session_id


def _rank(session: FetchSession) -> tuple[bool, int, int]:
    return (session.is_privileged, session.size_when_used, session.id)


def _is_evictable(session: FetchSession, for_privileged: bool) -> bool:
    is_old = session.last_used_ms - session.created_ms > EVICTION_MS
    return is_old or (for_privileged and not session.is_privileged)
