"""What one fetch request wants, and which of the results its answer has: by session, or without one.

=============================  ================================  ===================================================
the request                    it wants                          its answer
=============================  ================================  ===================================================
epoch 0                        what it names; the session that   all, and the id of a new session if there is a
                               it names ends                     place for one
epoch -1                       the same                          all
a session and its epoch        what the session follows, with    what has news
                               the changes that it names
… and nothing is left of it    what it names: nothing            all; the session ends
a session that is not there    nothing                           FETCH_SESSION_ID_NOT_FOUND
another epoch                  nothing                           INVALID_FETCH_SESSION_EPOCH
names in place of ids, or      nothing                           FETCH_SESSION_TOPIC_ID_ERROR
the other way round
=============================  ================================  ===================================================

Called by: the fetch handler. Thread rule: the loop's. Source: Kafka's ``FetchManager.newContext``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.fetch import FetchRequest, PartitionData
from tidelog.server.fetching.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FollowedPartition,
    followed_in,
    next_epoch,
)
from tidelog.server.fetching.session_cache import SessionCache

Results = Sequence[tuple[FollowedPartition, PartitionData]]

_FIRST_WITH_TOPIC_IDS = 13


class SelectedResults(NamedTuple):
    """Of an answer."""

    results: Results = ()
    session_id: int = NO_SESSION
    error: ErrorCode = ErrorCode.NONE


class FetchContext:
    """Made by ``begin_fetch``: without a session."""

    def __init__(self, wanted: Collection[FollowedPartition]) -> None:
        self.wanted = wanted

    def select(self, results: Results, now_ms: int) -> SelectedResults:
        """Called once, with a result for each wanted partition."""
        return SelectedResults(results)


class _RefusedFetch(FetchContext):
    def __init__(self, error: ErrorCode) -> None:
        super().__init__(())
        self._error = error

    def select(self, results: Results, now_ms: int) -> SelectedResults:
        return SelectedResults(error=self._error)


class _FirstFetch(FetchContext):
    """Of a new session."""

    def __init__(self, request: FetchRequest, cache: SessionCache, *, uses_topic_ids: bool) -> None:
        self._followed = followed_in(request)
        super().__init__(self._followed.values())
        self._cache = cache
        self._is_privileged = request.replica_state.replica_id >= 0
        self._uses_topic_ids = uses_topic_ids

    def select(self, results: Results, now_ms: int) -> SelectedResults:
        for followed, data in results:
            followed.was_told(data)
        session_id = self._cache.maybe_create(
            self._followed, is_privileged=self._is_privileged, uses_topic_ids=self._uses_topic_ids, now_ms=now_ms
        )
        return SelectedResults(results, session_id)


class _NextFetch(FetchContext):
    """Of a session. Another request of it that comes before this one is answered makes this one's answer an error."""

    def __init__(self, session: FetchSession) -> None:
        super().__init__(tuple(session.partitions.values()))
        self._session = session
        self._epoch = session.epoch

    def select(self, results: Results, now_ms: int) -> SelectedResults:
        session = self._session
        if session.epoch != self._epoch:
            return SelectedResults((), session.id, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        return SelectedResults(session.select_news(results), session.id)


def begin_fetch(version: int, request: FetchRequest, cache: SessionCache, now_ms: int) -> FetchContext:
    uses_topic_ids = version >= _FIRST_WITH_TOPIC_IDS
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        cache.remove(request.session_id)
        if request.session_epoch == FINAL_EPOCH:
            return FetchContext(followed_in(request).values())
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
        return FetchContext(followed_in(request).values())
    cache.touch(session, now_ms)
    session.epoch = next_epoch(session.epoch)
    return _NextFetch(session)
