"""The partitions that a fetch request reads, and the results that its response carries.

=====================================  ===================================  ===========================================
request                                partitions that it reads             response
=====================================  ===================================  ===========================================
epoch 0; ends the session it names     the partitions that it names         all results, and the id of a new session if
                                                                            the cache has room
epoch -1; ends the session it names    the partitions that it names         all results
a session and its current epoch        the session's, updated by the        the results that have changed
                                       request
the same, and the session becomes      the partitions that it names         all results; the session ends
empty                                  (usually none)
the same, and the session grows        none                                 FETCH_SESSION_ID_NOT_FOUND; the session ends
above the cache's limits
an unknown session                     none                                 FETCH_SESSION_ID_NOT_FOUND
another epoch                          none                                 INVALID_FETCH_SESSION_EPOCH
topic names instead of ids, or ids     none                                 FETCH_SESSION_TOPIC_ID_ERROR
instead of names
=====================================  ===================================  ===========================================

Thread rule: the event loop only. Source: Kafka's ``FetchManager.newContext`` (KIP-227).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.fetch import FetchRequest
from tidelog.server.fetching.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    CachedPartition,
    FetchSession,
    PartitionResult,
    cached_partitions,
    next_epoch,
)
from tidelog.server.fetching.session_cache import SessionCache

_FIRST_WITH_TOPIC_IDS = 13


class SelectedResults(NamedTuple):
    """The part of the results that goes into a response."""

    results: Sequence[PartitionResult] = ()
    session_id: int = NO_SESSION
    error: ErrorCode = ErrorCode.NONE


class FetchContext:
    """A fetch without a session, and the base of the others. ``begin_fetch`` creates them."""

    def __init__(self, wanted: Collection[CachedPartition]) -> None:
        self.wanted = wanted

    def select(self, results: Sequence[PartitionResult], now_ms: int) -> SelectedResults:
        """Return the results for the response. Call it once, with a result for each wanted partition."""
        return SelectedResults(results)


class _RefusedFetch(FetchContext):
    def __init__(self, error: ErrorCode) -> None:
        super().__init__(())
        self._error = error

    def select(self, results: Sequence[PartitionResult], now_ms: int) -> SelectedResults:
        return SelectedResults(error=self._error)


class _FirstFetch(FetchContext):
    """A fetch that creates a session."""

    def __init__(self, request: FetchRequest, cache: SessionCache, *, uses_topic_ids: bool) -> None:
        self._followed = cached_partitions(request)
        super().__init__(self._followed.values())
        self._cache = cache
        self._is_privileged = request.replica_state.replica_id >= 0
        self._uses_topic_ids = uses_topic_ids

    def select(self, results: Sequence[PartitionResult], now_ms: int) -> SelectedResults:
        for result in results:
            result.cached.record_sent(result.data)
        session_id = self._cache.maybe_create(
            self._followed, is_privileged=self._is_privileged, uses_topic_ids=self._uses_topic_ids, now_ms=now_ms
        )
        return SelectedResults(results, session_id)


class _NextFetch(FetchContext):
    """A fetch in an existing session. ``select`` returns INVALID_FETCH_SESSION_EPOCH if another request of the session
    began before this response."""

    def __init__(self, session: FetchSession) -> None:
        super().__init__(tuple(session.partitions.values()))
        self._session = session
        self._epoch = session.epoch

    def select(self, results: Sequence[PartitionResult], now_ms: int) -> SelectedResults:
        session = self._session
        if session.epoch != self._epoch:
            return SelectedResults((), session.id, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        return SelectedResults(session.select_changed(results), session.id)


def begin_fetch(version: int, request: FetchRequest, cache: SessionCache, now_ms: int) -> FetchContext:
    uses_topic_ids = version >= _FIRST_WITH_TOPIC_IDS
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        cache.remove(request.session_id)
        if request.session_epoch == FINAL_EPOCH:
            return FetchContext(cached_partitions(request).values())
        return _FirstFetch(request, cache, uses_topic_ids=uses_topic_ids)
    session = cache.get(request.session_id)
    if session is None:
        return _RefusedFetch(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    if session.epoch != request.session_epoch:
        return _RefusedFetch(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    if session.uses_topic_ids != uses_topic_ids:
        return _RefusedFetch(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    before = len(session.partitions)
    session.update(request)
    if len(session.partitions) > before and not cache.may_keep(session):
        return _RefusedFetch(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    if not session.partitions:
        cache.remove(session.id)
        return FetchContext(cached_partitions(request).values())
    cache.touch(session, now_ms)
    session.epoch = next_epoch(session.epoch)
    return _NextFetch(session)
