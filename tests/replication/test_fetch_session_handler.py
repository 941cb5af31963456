"""The client's side of fetch sessions: the partitions of each request, and the request after each response."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.fetch_session_handler import (
    MAX_EPOCH,
    FetchResponseHead,
    FetchSessionHandler,
    SessionPartition,
    SessionRequest,
    WantedPartition,
)
from tidelog.replication.follower_events import FetchPosition

A, B, C = (TopicPartition(topic, 0) for topic in "abc")
IDS = {name: uuid.UUID(int=at) for at, name in enumerate((A, B, C), start=1)}
SESSION = 77


def wanted(*names: TopicPartition, offset: int = 0, ids: bool = False) -> dict[TopicPartition, WantedPartition]:
    position = FetchPosition(offset=offset, leader_epoch=1, last_fetched_epoch=1, log_start_offset=0)
    return {
        name: WantedPartition(position=position, max_bytes=100, topic_id=IDS[name] if ids else None) for name in names
    }


def opened(partitions: Mapping[TopicPartition, WantedPartition]) -> FetchSessionHandler:
    """Return a session that the broker has accepted with these partitions."""
    session = FetchSessionHandler()
    assert session.next_request(partitions).is_full
    assert session.receive(FetchResponseHead(session_id=SESSION, partitions=partitions))
    return session


def shape(request: SessionRequest) -> tuple[int, int, list[TopicPartition], list[TopicPartition]]:
    forgotten = [partition.topic_partition for partition in request.forgotten]
    return request.session_id, request.session_epoch, list(request.partitions), forgotten


class TestRequests:
    def test_the_first_request_is_full(self) -> None:
        assert shape(FetchSessionHandler().next_request(wanted(A, B))) == (0, 0, [A, B], [])

    def test_an_unchanged_partition_is_left_out(self) -> None:
        assert shape(opened(wanted(A, B)).next_request(wanted(A, B))) == (SESSION, 1, [], [])

    @pytest.mark.parametrize("field", ["position", "max_bytes"])
    def test_a_changed_partition_is_sent(self, field: str) -> None:
        session = opened(wanted(A, B))
        now = wanted(A, B)
        now[B] = (
            wanted(B, offset=5)[B] if field == "position" else WantedPartition(position=now[B].position, max_bytes=7)
        )
        request = session.next_request(now)
        assert shape(request) == (SESSION, 1, [B], [])
        assert request.partitions[B] == now[B] == session.wanted(B)

    def test_new_and_unwanted_partitions_are_sent(self) -> None:
        request = opened(wanted(A, B, ids=True)).next_request(wanted(B, C, ids=True))
        assert shape(request) == (SESSION, 1, [C], [A])
        assert request.forgotten == (SessionPartition(A, IDS[A]),)

    def test_a_change_is_sent_once(self) -> None:
        session = opened(wanted(A, B))
        for epoch, expected in ((1, [C]), (2, [])):
            assert shape(session.next_request(wanted(A, B, C))) == (SESSION, epoch, expected, [])
            assert session.receive(FetchResponseHead(session_id=SESSION))

    def test_a_forgotten_partition_is_wanted_again(self) -> None:
        session = opened(wanted(A, B))
        session.next_request(wanted(A))
        session.receive(FetchResponseHead(session_id=SESSION))
        assert shape(session.next_request(wanted(A, B))) == (SESSION, 2, [B], [])

    def test_epochs_begin_again_at_one(self) -> None:
        session = opened(wanted(A))
        session.session_epoch = MAX_EPOCH
        session.receive(FetchResponseHead(session_id=SESSION))
        assert session.session_epoch == 1

    def test_closing(self) -> None:
        assert FetchSessionHandler().close_request() is None
        session = opened(wanted(A))
        request = session.close_request()
        assert request is not None
        assert shape(request) == (SESSION, -1, [], [])
        assert session.receive(FetchResponseHead())
        assert shape(session.next_request(wanted(A))) == (0, 0, [A], [])


class TestTopicIds:
    def test_they_are_used_if_every_partition_has_one(self) -> None:
        assert FetchSessionHandler().next_request(wanted(A, B, ids=True)).uses_topic_ids
        assert not FetchSessionHandler().next_request(wanted(A, ids=True) | wanted(B)).uses_topic_ids
        assert FetchSessionHandler().next_request({}).uses_topic_ids

    def test_a_forgotten_partition_without_one_prevents_them(self) -> None:
        session = opened(wanted(A, ids=True) | wanted(B))
        request = session.next_request(wanted(A, ids=True))
        assert (shape(request)[3], request.uses_topic_ids) == ([B], False)

    def test_another_id_of_the_same_name_begins_a_new_session(self) -> None:
        session = opened(wanted(A, B, ids=True))
        now = wanted(A, B, ids=True)
        now[A] = WantedPartition(position=now[A].position, max_bytes=100, topic_id=uuid.UUID(int=9))
        request = session.next_request(now)
        assert (request.session_id, request.session_epoch) == (SESSION, 0)
        assert (request.partitions, request.forgotten) == (now, ())
        assert session.partition(uuid.UUID(int=9), 0) == A
        assert session.partition(IDS[A], 0) is None

    def test_an_id_that_becomes_known_or_unknown(self) -> None:
        session = opened(wanted(A))
        request = session.next_request(wanted(A, ids=True))
        assert (shape(request)[2:], request.uses_topic_ids) == (([A], []), True)
        session.receive(FetchResponseHead(session_id=SESSION))
        request = session.next_request(wanted(A))
        assert (shape(request), request.uses_topic_ids) == ((SESSION, 0, [A], []), False)

    def test_responses_name_partitions_by_id(self) -> None:
        session = FetchSessionHandler()
        session.next_request(wanted(A, B, ids=True))
        assert session.receive(FetchResponseHead(session_id=SESSION, partitions=[(IDS[A], 0), (IDS[B], 0)]))
        assert (session.partition(IDS[A], 0), session.partition(IDS[A], 1)) == (A, None)
        session.next_request(wanted(A, B, ids=True))
        assert not session.receive(FetchResponseHead(session_id=SESSION, partitions=[(IDS[C], 0)]))
        assert session.problem is not None
        assert str(IDS[C]) in session.problem


class TestResponses:
    """Each test ends with the next request, for one partition."""

    @pytest.mark.parametrize(
        ("response", "is_usable", "following"),
        [
            (FetchResponseHead(session_id=SESSION, partitions=[A, B]), True, (SESSION, 1, [], [B])),
            (FetchResponseHead(partitions=[A, B]), True, (0, 0, [A], [])),
            (FetchResponseHead(session_id=SESSION, throttle_time_ms=5), False, (0, 0, [A], [])),
            (FetchResponseHead(session_id=SESSION, partitions=[A]), False, (0, 0, [A], [])),
            (FetchResponseHead(session_id=SESSION, partitions=[A], throttle_time_ms=5), False, (0, 0, [A], [])),
            (FetchResponseHead(session_id=SESSION, partitions=[A, B, C]), False, (0, 0, [A], [])),
            (FetchResponseHead(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), False, (0, 0, [A], [])),
        ],
        ids=["session", "no session", "throttled", "incomplete", "incomplete and throttled", "unknown", "error"],
    )
    def test_to_a_full_request(
        self, response: FetchResponseHead, is_usable: bool, following: tuple[int, int, list[object], list[object]]
    ) -> None:
        session = FetchSessionHandler()
        session.next_request(wanted(A, B))
        assert session.receive(response) == is_usable
        assert (session.problem is None) == is_usable
        assert shape(session.next_request(wanted(A))) == following

    @pytest.mark.parametrize(
        ("response", "is_usable", "following"),
        [
            (FetchResponseHead(session_id=SESSION), True, (SESSION, 2, [], [B])),
            (FetchResponseHead(session_id=SESSION, partitions=[B]), True, (SESSION, 2, [], [B])),
            (FetchResponseHead(partitions=[B]), True, (0, 0, [A], [])),
            (FetchResponseHead(session_id=SESSION, partitions=[C]), False, (SESSION, 0, [A], [])),
            (FetchResponseHead(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), False, (0, 0, [A], [])),
            (FetchResponseHead(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH), False, (SESSION, 0, [A], [])),
            (FetchResponseHead(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR), False, (SESSION, 0, [A], [])),
            (FetchResponseHead(error_code=ErrorCode.INCONSISTENT_TOPIC_ID), False, (SESSION, 0, [A], [])),
        ],
        ids=["empty", "changes", "closed", "unknown", "not found", "epoch", "topic ids", "topic id"],
    )
    def test_to_an_incremental_request(
        self, response: FetchResponseHead, is_usable: bool, following: tuple[int, int, list[object], list[object]]
    ) -> None:
        session = opened(wanted(A, B))
        session.next_request(wanted(A, B))
        assert session.receive(response) == is_usable
        assert shape(session.next_request(wanted(A))) == following

    def test_no_response_closes_the_session(self) -> None:
        session = opened(wanted(A, B))
        session.next_request(wanted(A))
        session.fail()
        assert shape(session.next_request(wanted(A, C))) == (SESSION, 0, [A, C], [])
        assert session.receive(FetchResponseHead(session_id=SESSION + 1, partitions=[A, C]))
        assert shape(session.next_request(wanted(A, C))) == (SESSION + 1, 1, [], [])
