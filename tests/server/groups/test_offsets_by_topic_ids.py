"""OffsetCommit and OffsetFetch from version 10 on, which identify topics by their ids (KIP-848)."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from server.groups.group_broker import GroupBroker
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct

VERSION = 10


def fetch(groups: GroupBroker, topic_ids: list[UUID] | None) -> tuple[Struct, ...]:
    """Return the topics of the response."""
    asked = None if topic_ids is None else [{"topic_id": one, "partition_indexes": [0]} for one in topic_ids]
    (answer,) = groups.client.call(ApiKey.OFFSET_FETCH, VERSION, groups=[{"group_id": "g", "topics": asked}]).groups
    assert answer.error_code == 0, answer
    topics: tuple[Struct, ...] = answer.topics
    return topics


def found(topics: tuple[Struct, ...]) -> list[tuple[UUID, int, int]]:
    return [(topic.topic_id, part.committed_offset, part.error_code) for topic in topics for part in topic.partitions]


def test_what_is_committed_is_fetched(groups: GroupBroker) -> None:
    topic_id = groups.make_topic()
    groups.find()
    assert groups.commit(42, VERSION, {"topic_id": topic_id}) == 0
    assert found(fetch(groups, [topic_id])) == [(topic_id, 42, 0)]
    assert groups.fetch().committed_offset == 42, "by its name too"
    groups.restart()
    assert found(fetch(groups, None)) == [(topic_id, 42, 0)]


def test_ids_that_no_topic_has(groups: GroupBroker) -> None:
    """Known topics come first in a response, unknown ones after them."""
    topic_id, first, second = groups.make_topic(), uuid4(), uuid4()
    groups.find()
    parts: list[dict[str, Any]] = [
        {"topic_id": one, "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]}
        for one in (first, topic_id, second)
    ]
    answer = groups.client.call(
        ApiKey.OFFSET_COMMIT, VERSION, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=parts
    )
    committed = {topic.topic_id: [part.error_code for part in topic.partitions] for topic in answer.topics}
    assert committed == {
        topic_id: [0],
        first: [ErrorCode.UNKNOWN_TOPIC_ID],
        second: [ErrorCode.UNKNOWN_TOPIC_ID],
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert found(fetch(groups, [first, topic_id, second])) == [
        (topic_id, 5, 0),
        (first, -1, unknown),
        (second, -1, unknown),
    ]


def test_a_partition_that_the_topic_does_not_have(groups: GroupBroker) -> None:
    topic_id = groups.make_topic(partitions=1)
    groups.find()
    part = {"partition_index": 1, "committed_offset": 5, "committed_metadata": ""}
    answer = groups.client.call(
        ApiKey.OFFSET_COMMIT,
        VERSION,
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"topic_id": topic_id, "partitions": [part]}],
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("topic_ids", [None, [uuid4()]])
def test_a_group_that_is_elsewhere(groups: GroupBroker, topic_ids: list[UUID] | None) -> None:
    asked = None if topic_ids is None else [{"topic_id": one, "partition_indexes": [0]} for one in topic_ids]
    (answer,) = groups.client.call(ApiKey.OFFSET_FETCH, VERSION, groups=[{"group_id": "g", "topics": asked}]).groups
    assert (answer.error_code, answer.topics) == (ErrorCode.NOT_COORDINATOR, ())
    if topic_ids is not None:
        assert groups.commit(1, VERSION, {"topic_id": groups.make_topic()}) == ErrorCode.NOT_COORDINATOR
