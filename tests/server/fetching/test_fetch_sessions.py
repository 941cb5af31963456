"""Fetch sessions: incremental responses are equivalent to full ones. The cache evicts sessions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData, ReplicaState
from tidelog.server.fetching import session_cache
from tidelog.server.fetching.fetch_context import SelectedResults, begin_fetch
from tidelog.server.fetching.fetch_session import FINAL_EPOCH, NO_SESSION, FetchSession, PartitionResult, next_epoch
from tidelog.server.fetching.session_cache import EVICTION_MS, MAX_SESSION_PARTITIONS, SessionCache

WITH_NAMES, WITH_IDS = 12, 13
TOPIC_ID = UUID(int=9)


def request(
    wanted: Iterable[int] = (),
    *,
    session_id: int = 0,
    epoch: int = 0,
    forgotten: Iterable[int] = (),
    offset: int = 0,
    replica_id: int = -1,
    by_id: bool = False,
) -> FetchRequest:
    name: tuple[str, UUID | None] = ("", TOPIC_ID) if by_id else ("t", None)
    partitions = [FetchPartition(number, -1, offset, -1, -1, 1000) for number in wanted]
    forgotten = list(forgotten)
    return FetchRequest(
        ReplicaState(replica_id),
        max_wait=0,
        min_bytes=1,
        max_bytes=1000,
        isolation_level=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(*name, partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(*name, forgotten)] if forgotten else [],
        rack_id="",
    )


def fetch(
    cache: SessionCache, asked: FetchRequest, *, version: int = WITH_NAMES, now_ms: int = 0, **data: Any
) -> SelectedResults:
    """Send one request. The fetch finds ``data`` for each wanted partition."""
    context = begin_fetch(version, asked, cache, now_ms)
    return context.select(
        [PartitionResult(one, PartitionData(one.partition, **data)) for one in context.wanted], now_ms
    )


def numbers(selected: SelectedResults) -> list[int]:
    return [one.cached.partition for one in selected.results]


# --- compared with full fetches ---


@dataclass
class State:
    """A partition's state in the broker."""

    high_watermark: int = 0
    log_start: int = 0
    error: int = 0
    records: bytes = b""
    """The records that the next fetch returns."""

    def data(self, number: int) -> PartitionData:
        if self.error:
            return PartitionData(number, self.error)
        return PartitionData(
            number, high_watermark=self.high_watermark, log_start_offset=self.log_start, records=self.records
        )


@dataclass
class Client:
    """The partitions that a client wants, and the last data that it received for each."""

    wanted: set[int] = field(default_factory=set)
    told: dict[int, PartitionData] = field(default_factory=dict)
    session_id: int = NO_SESSION
    epoch: int = 0


class FetchSessionMachine(RuleBasedStateMachine):
    """A session's client knows each partition's state as a full fetch would return it, and receives every record."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = SessionCache(10)
        self.states = {number: State() for number in range(5)}
        self.client = Client()

    @initialize(wanted=st.sets(st.integers(0, 4), min_size=1))
    def begin(self, wanted: set[int]) -> None:
        self.client.wanted = set(wanted)
        self._fetch(request(wanted))

    @rule(number=st.integers(0, 4), by=st.integers(1, 5))
    def append(self, number: int, by: int) -> None:
        self.states[number].high_watermark += by
        self.states[number].records = b"r" * by

    @rule(number=st.integers(0, 4))
    def delete_records(self, number: int) -> None:
        self.states[number].log_start = self.states[number].high_watermark

    @rule(number=st.integers(0, 4), error=st.sampled_from([0, 3, 6]))
    def fail(self, number: int, error: int) -> None:
        self.states[number].error = error

    @rule(added=st.sets(st.integers(0, 4)), forgotten=st.sets(st.integers(0, 4)))
    def go_on(self, added: set[int], forgotten: set[int]) -> None:
        left = (self.client.wanted | added) - forgotten
        if not left:
            return
        self.client.wanted = left
        for number in forgotten:
            self.client.told.pop(number, None)
        self._fetch(request(added, session_id=self.client.session_id, epoch=self.client.epoch, forgotten=forgotten))

    def _fetch(self, asked: FetchRequest) -> None:
        context = begin_fetch(WITH_NAMES, asked, self.cache, 0)
        found = [PartitionResult(one, self.states[one.partition].data(one.partition)) for one in context.wanted]
        assert {one.partition for one in context.wanted} == self.client.wanted
        selected = context.select(found, 0)
        assert selected.error is ErrorCode.NONE
        self.client.session_id, self.client.epoch = selected.session_id, next_epoch(self.client.epoch)
        for cached, data, *_ in selected.results:
            self.client.told[cached.partition] = data
        sent = {cached.partition for cached, data, *_ in selected.results if data.records}
        for number in self.client.wanted:
            state = self.states[number]
            assert (number in sent) == bool(state.records and not state.error)
            if not state.error:
                state.records = b""
        self._check()

    def _check(self) -> None:
        for number in self.client.wanted:
            told, full = self.client.told[number], self.states[number].data(number)
            assert told._replace(records=b"") == full._replace(records=b"")

    @invariant()
    def there_is_one_session(self) -> None:
        assert len(self.cache) <= 1


TestFetchSessionMachine = FetchSessionMachine.TestCase
TestFetchSessionMachine.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


# --- requests ---


def test_a_full_fetch_begins_a_session_and_an_incremental_one_goes_on() -> None:
    cache = SessionCache(1)
    first = fetch(cache, request([0, 1]))
    assert (numbers(first), first.session_id != NO_SESSION) == ([0, 1], True)
    second = fetch(cache, request(session_id=first.session_id, epoch=1), high_watermark=5)
    assert numbers(second) == [0, 1]
    assert numbers(fetch(cache, request(session_id=first.session_id, epoch=2), high_watermark=5)) == []


def test_a_partition_whose_records_were_sent_goes_to_the_end() -> None:
    cache = SessionCache(1)
    session_id = fetch(cache, request([0, 1, 2])).session_id
    context = begin_fetch(WITH_NAMES, request(session_id=session_id, epoch=1), cache, 0)
    context.select(
        [
            PartitionResult(one, PartitionData(one.partition, records=b"r" * (one.partition == 0)))
            for one in context.wanted
        ],
        0,
    )
    again = begin_fetch(WITH_NAMES, request(session_id=session_id, epoch=2), cache, 0)
    assert [one.partition for one in again.wanted] == [1, 2, 0]


def test_an_error_is_told_each_time_and_its_end_too() -> None:
    cache = SessionCache(1)
    session_id = fetch(cache, request([0]), high_watermark=7, log_start_offset=0).session_id
    for epoch in (1, 2):
        assert numbers(fetch(cache, request(session_id=session_id, epoch=epoch), error_code=6)) == [0]
    sound = fetch(cache, request(session_id=session_id, epoch=3), high_watermark=7, log_start_offset=0)
    assert numbers(sound) == [0]


@pytest.mark.parametrize(
    ("other_id", "epoch", "version", "error"),
    [
        (True, 1, WITH_NAMES, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (False, 2, WITH_NAMES, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (False, 1, WITH_IDS, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_session_that_cannot_be_gone_on_with(other_id: bool, epoch: int, version: int, error: ErrorCode) -> None:
    cache = SessionCache(1)
    session_id = fetch(cache, request([0])).session_id
    asked = session_id % (2**31 - 1) + 1 if other_id else session_id
    refused = fetch(cache, request(session_id=asked, epoch=epoch), version=version)
    assert (refused.error, refused.results, refused.session_id) == (error, (), NO_SESSION)


def test_a_session_by_topic_ids() -> None:
    cache = SessionCache(1)
    session_id = fetch(cache, request([0, 1], by_id=True), version=WITH_IDS).session_id
    forgetting = request(session_id=session_id, epoch=1, forgotten=[0], by_id=True)
    assert numbers(fetch(cache, forgetting, version=WITH_IDS, high_watermark=3)) == [1]


def test_a_session_ends_with_its_last_partition_and_with_the_final_epoch() -> None:
    cache = SessionCache(2)
    session_id = fetch(cache, request([0])).session_id
    assert fetch(cache, request(session_id=session_id, epoch=1, forgotten=[0])).session_id == NO_SESSION
    other_id = fetch(cache, request([0])).session_id
    final = fetch(cache, request([3], session_id=other_id, epoch=FINAL_EPOCH))
    assert (numbers(final), final.session_id, len(cache)) == ([3], NO_SESSION, 0)


def test_an_answer_that_comes_after_the_next_request_is_an_error() -> None:
    cache = SessionCache(1)
    session_id = fetch(cache, request([0])).session_id
    slow = begin_fetch(WITH_NAMES, request(session_id=session_id, epoch=1), cache, 0)
    begin_fetch(WITH_NAMES, request(session_id=session_id, epoch=2), cache, 0)
    late = slow.select([PartitionResult(one, PartitionData(one.partition, high_watermark=5)) for one in slow.wanted], 0)
    assert (late.error, late.results) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ())


def test_a_request_that_names_a_partition_twice_means_the_last() -> None:
    asked = request([0])
    twice = asked._replace(topics=asked.topics + request([0], offset=7).topics)
    context = begin_fetch(WITH_NAMES, twice, SessionCache(0), 0)
    assert [one.wanted.fetch_offset for one in context.wanted] == [7]


def test_epochs_go_round() -> None:
    assert next_epoch(2**31 - 1) == 1
    assert next_epoch(FINAL_EPOCH) == FINAL_EPOCH


# --- the cache ---


def create(cache: SessionCache, size: int, *, privileged: bool = False, now_ms: int = 0) -> int:
    asked = request(range(size), replica_id=2 if privileged else -1)
    return fetch(cache, asked, now_ms=now_ms).session_id


def use(cache: SessionCache, session_id: int, now_ms: int) -> None:
    session = cache.get(session_id)
    assert isinstance(session, FetchSession)
    fetch(cache, request(session_id=session_id, epoch=session.epoch), now_ms=now_ms)


def test_without_a_place_there_is_no_session() -> None:
    assert create(SessionCache(0), 3) == NO_SESSION
    cache = SessionCache(1)
    assert create(cache, 1) != NO_SESSION
    assert create(cache, 5, now_ms=EVICTION_MS) == NO_SESSION
    assert cache.evictions == 0


def test_a_session_that_nobody_uses_loses_its_place() -> None:
    cache = SessionCache(1)
    old = create(cache, 5)
    new = create(cache, 1, now_ms=EVICTION_MS + 1)
    assert (cache.get(old), cache.get(new) is not None, cache.evictions) == (None, True, 1)


def test_an_old_session_loses_its_place_to_one_that_follows_as_many() -> None:
    cache = SessionCache(2)
    small, large = create(cache, 2), create(cache, 4)
    now_ms = EVICTION_MS + 1
    use(cache, small, now_ms)
    use(cache, large, now_ms)
    assert create(cache, 1, now_ms=now_ms) == NO_SESSION
    assert create(cache, 2, now_ms=now_ms) == NO_SESSION  # equal sizes are compared by id, and a new one's is 0
    assert create(cache, 3, now_ms=now_ms) != NO_SESSION
    assert (cache.get(small), cache.get(large) is not None) == (None, True)


def test_a_followers_session_takes_a_consumers_place_at_once() -> None:
    cache = SessionCache(1)
    consumers = create(cache, 9)
    followers = create(cache, 1, privileged=True)
    assert (cache.get(consumers), followers != NO_SESSION) == (None, True)
    assert create(cache, 99, now_ms=EVICTION_MS) == NO_SESSION
    assert cache.partition_count == 1


def test_a_session_has_only_so_many_partitions() -> None:
    cache = SessionCache(10)
    assert create(cache, MAX_SESSION_PARTITIONS + 1) == NO_SESSION
    full = create(cache, MAX_SESSION_PARTITIONS)
    session = cache.get(full)
    assert session is not None
    grown = fetch(cache, request([MAX_SESSION_PARTITIONS], session_id=full, epoch=session.epoch))
    assert grown.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cache) == 0


def test_all_sessions_together_have_only_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_cache, "MAX_TOTAL_PARTITIONS", 12)
    cache = SessionCache(1000)
    sessions = [create(cache, 4) for _ in range(3)]
    assert NO_SESSION not in sessions
    assert create(cache, 1) == NO_SESSION
    later_ms = EVICTION_MS + 1
    use(cache, sessions[0], later_ms)
    assert create(cache, 4, now_ms=later_ms) != NO_SESSION
    assert [cache.get(one) is None for one in sessions] == [False, True, False]
