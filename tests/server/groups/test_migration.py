"""Groups that migrate from the classic to the consumer protocol and back while they are in use."""

from __future__ import annotations

from typing import Any

import pytest

from server.groups.shard_harness import Consumer, MemoryTopics, ShardHarness, settle
from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.classic.member_requests import Leaver
from tidelog.server.groups.state.classic_group import ClassicState
from tidelog.server.groups.state.classic_member import Protocol
from tidelog.server.groups.state.consumer_protocol import PROTOCOL_TYPE, read_assignment, write_assignment
from tidelog.server.groups.state.settings import ConsumerGroupSettings


def subscription(*topics: str, owned: tuple[int, ...] = ()) -> tuple[Protocol, ...]:
    """Return a subscription of version 1: the topics, and the owned partitions of topic ``a``."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    parts = len(owned).to_bytes(4, "big") + b"".join(number.to_bytes(4, "big") for number in owned)
    has = b"\0\0\0\1\0\1a" + parts if owned else b"\0\0\0\0"
    data = b"\0\1" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff" + has
    return (Protocol("range", data), Protocol("cooperative-sticky", data))


def classic_group(policy: str = "bidirectional", **fields: Any) -> tuple[ShardHarness, str]:
    """Create a classic group with one member that owns all four partitions of ``a``."""
    harness = ShardHarness(MemoryTopics(a=4), consumer=ConsumerGroupSettings(migration_policy=policy))
    given: dict[str, Any] = {"protocols": subscription("a"), "session_timeout_ms": 45_000} | fields
    replies = harness.join(**given)
    harness.wait(3000)
    member = str(replies.one["member_id"])
    harness.sync(member, 1, assignments={member: write_assignment({"a": [0, 1, 2, 3]}, 1)})
    return harness, member


def partitions(answer: Any) -> list[int]:
    return sorted(read_assignment(answer["assignment"]).partitions.get("a", []))


def test_a_member_of_the_new_protocol_makes_it_a_consumer_group_and_the_others_go_on() -> None:
    harness, old = classic_group()
    new = Consumer(harness, "m2")
    assert new.beat() is ErrorCode.NONE
    assert (harness.consumer.group_epoch, new.partitions) == (2, set())
    assert harness.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS

    first = harness.join(old, protocols=subscription("a", owned=(0, 1, 2, 3)))
    assert (first.error, first.one["generation_id"], first.one["protocol_name"]) == (ErrorCode.NONE, 1, "range")
    kept = partitions(harness.sync(old, 1).one)
    assert len(kept) == 2
    assert harness.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS, "it has to say that it gave up the rest"
    second = harness.join(old, protocols=subscription("a", owned=tuple(kept)))
    assert second.one["generation_id"] == 2
    assert partitions(harness.sync(old, 2).one) == kept
    assert harness.heartbeat(old, 2) is ErrorCode.NONE
    settle(new)
    assert {number for _, number in new.partitions} == set(range(4)) - set(kept)
    again = harness.reloaded()
    assert again.consumer.members == harness.consumer.members
    assert again.heartbeat(old, 2) is ErrorCode.NONE


def test_a_classic_member_that_joined_in_time_stays() -> None:
    harness, old = classic_group()
    new = Consumer(harness, "m2")
    new.beat()
    assert harness.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    harness.join(old, protocols=subscription("a", owned=(0, 1, 2, 3)))
    kept = tuple(partitions(harness.sync(old, 1).one))
    harness.join(old, protocols=subscription("a", owned=kept))
    harness.sync(old, 2)
    for _ in range(7):
        harness.wait(5_000)
        new.beat()
        assert harness.heartbeat(old, 2) is ErrorCode.NONE


def test_a_static_member_that_changes_the_protocol_has_no_timers_of_the_old_one() -> None:
    harness, old = classic_group(instance_id="i1")
    new = Consumer(harness, "m2")
    new.beat()
    assert harness.heartbeat(old, 1, instance_id="i1") is ErrorCode.REBALANCE_IN_PROGRESS
    upgraded = Consumer(harness, old, instance_id="i1")
    for _ in range(7):
        assert upgraded.beat() is ErrorCode.NONE
        assert new.beat() is ErrorCode.NONE
        harness.wait(5_000)


def test_classic_members_join_and_leave_a_consumer_group() -> None:
    harness, old = classic_group()
    new = Consumer(harness, "m2")
    new.beat()
    asked = harness.join(protocols=subscription("a"), requires_member_id=True)
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
    joined = harness.join(asked.one["member_id"], protocols=subscription("a"), requires_member_id=True)
    assert joined.error is ErrorCode.NONE
    assert len(harness.consumer.members) == 3
    assert harness.leave(Leaver(asked.one["member_id"]), Leaver("who")) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert harness.consumer.members.keys() == {old, "m2"}


def test_a_classic_member_that_does_not_join_in_time_is_removed() -> None:
    harness, old = classic_group()
    new = Consumer(harness, "m2")
    new.beat()
    for _ in range(6):
        assert harness.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        harness.wait(5_000)
        new.beat()
    assert harness.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_is_silent_for_its_own_session_is_removed() -> None:
    harness, old = classic_group(session_timeout_ms=10_000)
    new = Consumer(harness, "m2")
    new.beat()
    harness.wait(10_000)
    assert old not in harness.consumer.members


@pytest.mark.parametrize(("fields", "error"), [
    ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
    ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ({"member_id": "m2"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"member_id": "who"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({}, ErrorCode.REBALANCE_IN_PROGRESS),
])  # fmt: skip
def test_syncs_that_do_not_fit(fields: dict[str, Any], error: ErrorCode) -> None:
    harness, old = classic_group()
    Consumer(harness, "m2").beat()
    given: dict[str, Any] = {"member_id": old, "generation_id": 1} | fields
    assert harness.sync(**given).error is error


def test_when_the_last_member_of_the_new_protocol_goes_the_group_is_a_classic_one_again() -> None:
    harness, old = classic_group()
    new = Consumer(harness, "m2")
    new.beat()
    assert new.leave() is ErrorCode.NONE
    reverted = harness.classic
    assert reverted.state is ClassicState.PREPARING_REBALANCE
    assert [protocol.name for protocol in reverted.members[old].protocols] == ["range", "cooperative-sticky"]
    again = harness.join(old, protocols=subscription("a"))
    assert again.one["leader"] == old
    assert harness.classic.state is ClassicState.COMPLETING_REBALANCE
    assert list(harness.reloaded().classic.members) == [old]


def test_a_static_member_that_comes_back_with_the_classic_protocol_takes_the_group_with_it() -> None:
    harness, old = classic_group(instance_id="i1")
    upgraded = Consumer(harness, "m1", instance_id="i1")
    assert upgraded.beat() is ErrorCode.NONE
    assert not harness.consumer.classic_members
    assert (upgraded.epoch, len(upgraded.partitions)) == (1, 4)
    assert harness.heartbeat(old, 1, instance_id="i1") is ErrorCode.FENCED_INSTANCE_ID
    back = harness.join(instance_id="i1", protocols=subscription("a"))
    member = str(back.one["member_id"])
    assert harness.classic.state is ClassicState.STABLE
    assert partitions(harness.sync(member, back.one["generation_id"], instance_id="i1").one) == [0, 1, 2, 3]


@pytest.mark.parametrize(("policy", "fields", "message"), [
    ("downgrade", {}, "online upgrade is disabled"),
    ("disabled", {}, "online upgrade is disabled"),
    ("upgrade", {"protocol_type": "connect"}, "does not use the consumer embedded protocol"),
    ("upgrade", {"protocols": (Protocol("range", b"\0"),)}, "malformed"),
])  # fmt: skip
def test_a_group_that_may_not_move_stays_what_it_is(policy: str, fields: dict[str, Any], message: str) -> None:
    harness, old = classic_group(policy, **fields)
    answer = harness.beat("m2", 0).one
    assert answer["error_code"] is ErrorCode.GROUP_ID_NOT_FOUND
    assert message in answer["error_message"]
    assert harness.heartbeat(old, 1) is ErrorCode.NONE


def test_data_of_an_assignor_of_their_own_would_be_lost() -> None:
    harness, old = classic_group()
    harness.classic.members[old].assignment = b"\0\0" + b"\0\0\0\0" + b"\0\0\0\1x"
    answer = harness.beat("m2", 0).one
    assert "unsupported custom assignor" in answer["error_message"]


def test_without_leave_to_go_back_the_group_stays_a_consumer_group() -> None:
    harness, old = classic_group("upgrade")
    new = Consumer(harness, "m2")
    new.beat()
    new.leave()
    assert harness.consumer.members.keys() == {old}


def test_who_waited_for_the_classic_group_is_told_to_join_again() -> None:
    harness, old = classic_group()
    waiting = harness.join(protocols=subscription("a"))
    assert harness.heartbeat(old, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    Consumer(harness, "m3").beat()
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    harness.wait(60_000)  # the classic group's timers do not affect the consumer group
    assert harness.consumer.group_id


def test_protocols_of_members_that_came_in_the_old_way_have_to_fit() -> None:
    harness, _ = classic_group()
    Consumer(harness, "m2").beat()
    other = (Protocol("sticky", subscription("a")[0].metadata),)
    assert harness.join(protocols=other).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.consumer.members.keys() != set()
    assert PROTOCOL_TYPE == "consumer"
