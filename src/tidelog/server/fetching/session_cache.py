"""The broker's cache of fetch sessions, and its metrics. A new session may evict another, because the size is limited.

====================================================  ==============================================================
a session                                             a new session may evict it if the new one
====================================================  ==============================================================
not used for ``EVICTION_MS``                          is of any kind
a consumer's                                          is a follower's
a consumer's, in use for longer than ``EVICTION_MS``  is a follower's, or follows more partitions
a follower's, in use for longer than ``EVICTION_MS``  is a follower's and follows more partitions
====================================================  ==============================================================

The least recently used session goes first if it is stale. Otherwise it is the smallest, a consumer's before a
follower's. A client whose session was evicted gets an error and begins a new session.

Sessions outlive connections, and a request of a few bytes makes the broker read all partitions of its session.
Therefore the number of partitions is limited, and a client that follows more must name them in every request. Kafka
does not limit them.
Thread rule: the event loop only. Source: Kafka's ``FetchSessionCacheShard`` (with one shard).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from tidelog.runtime.metrics import MetricFamily, Sample
from tidelog.server.fetching.fetch_session import NO_SESSION, CachedPartition, FetchSession, PartitionKey

EVICTION_MS: Final = 120_000
MAX_SESSION_PARTITIONS: Final = 20_000
"""The most partitions that one session may follow."""
MAX_TOTAL_PARTITIONS: Final = 500_000
"""The most partitions that all sessions together may follow."""
_MAX_ID: Final = 2**31 - 1


class SessionCache:
    def __init__(self, slots: int) -> None:
        """Create an empty cache; ``slots`` is the most sessions it holds, and 0 disables sessions."""
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}
        """The sessions by id, the least recently used first."""
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions that all sessions together follow."""
        return sum(len(session.partitions) for session in list(self._sessions.values()))

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> None:
        """Remove a session. An unknown id is a no-op."""
        self._sessions.pop(session_id, None)

    def touch(self, session: FetchSession, now_ms: int) -> None:
        """Mark the session as the most recently used."""
        session.last_used_ms = now_ms
        session.size_when_used = len(session.partitions)
        self._sessions[session.id] = self._sessions.pop(session.id)

    def maybe_create(
        self,
        partitions: dict[PartitionKey, CachedPartition],
        *,
        is_privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> int:
        """Return the id of a new session, or ``NO_SESSION`` if the cache has no room for it."""
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
        """Return True if a session that has grown is within the limits. Otherwise remove it."""
        if len(session.partitions) <= MAX_SESSION_PARTITIONS and self.partition_count <= MAX_TOTAL_PARTITIONS:
            return True
        self.remove(session.id)
        return False

    def _has_room(self, partitions: dict[PartitionKey, CachedPartition], now_ms: int) -> bool:
        """Return True if that many partitions more fit. Stale sessions are evicted to make room."""
        if len(partitions) > MAX_SESSION_PARTITIONS:
            return False
        while self.partition_count + len(partitions) > MAX_TOTAL_PARTITIONS:
            stale = next(iter(self._sessions.values()))
            if now_ms - stale.last_used_ms <= EVICTION_MS:
                return False
            self.remove(stale.id)
            self.evictions += 1
        return True

    def _evict(self, newcomer: tuple[bool, int, int], now_ms: int) -> bool:
        """Evict one session if the rank ``newcomer`` allows it."""
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
        """Return a random id. It must be hard to guess: a client that knows it can use the session."""
        while True:
            session_id = random.SystemRandom().randint(1, _MAX_ID)
            if session_id not in self._sessions:
                return session_id


def _rank(session: FetchSession) -> tuple[bool, int, int]:
    return (session.is_privileged, session.size_when_used, session.id)


def _is_evictable(session: FetchSession, for_privileged: bool) -> bool:
    is_old = session.last_used_ms - session.created_ms > EVICTION_MS
    return is_old or (for_privileged and not session.is_privileged)


_CACHE = MetricFamily("kafka.server", "FetchSessionCache")

SESSIONS = _CACHE.gauge("NumIncrementalFetchSessions", "sessions", "Incremental fetch sessions.")
PARTITIONS = _CACHE.gauge(
    "NumIncrementalFetchPartitionsCached", "partitions", "Partitions that the incremental fetch sessions follow."
)

METRICS = tuple(_CACHE.described)


def session_samples(sessions: SessionCache) -> Iterator[Sample]:
    yield Sample.gauge(SESSIONS.named(), len(sessions))
    yield Sample.gauge(PARTITIONS.named(), sessions.partition_count)
