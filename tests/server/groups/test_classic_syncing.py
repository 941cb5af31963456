"""SyncGroup, Heartbeat and LeaveGroup of classic groups; sessions; failed writes."""

from __future__ import annotations

import pytest

from server.groups.shard_harness import ShardHarness
from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.classic.member_requests import Leaver
from tidelog.server.groups.state.classic_group import ClassicState


def joined(harness: ShardHarness, count: int = 2) -> tuple[str, list[str]]:
    """Return the leader and the followers of a group whose leader has not assigned yet."""
    joins = [harness.join() for _ in range(count)]
    harness.wait(harness.settings.initial_rebalance_delay_ms * (count + 1))
    ids = [str(replies.one["member_id"]) for replies in joins]
    leader = str(joins[0].one["leader"])
    return leader, [member_id for member_id in ids if member_id != leader]


def test_followers_wait_for_the_leaders_assignment_and_get_their_part() -> None:
    harness = ShardHarness()
    leader, (follower,) = joined(harness)
    waiting = harness.sync(follower, 1)
    assert not waiting
    own = harness.sync(leader, 1, assignments={leader: b"mine", follower: b"yours"})
    assert own.one["assignment"] == b"mine"
    assert waiting.one == {
        "error_code": ErrorCode.NONE,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignment": b"yours",
    }
    assert harness.classic.state is ClassicState.STABLE
    assert harness.sync(follower, 1).one["assignment"] == b"yours", "asked again"


def test_members_that_the_leader_forgot_get_nothing() -> None:
    harness = ShardHarness()
    leader, (follower,) = joined(harness)
    harness.sync(leader, 1, assignments={leader: b"all"})
    assert harness.sync(follower, 1).one["assignment"] == b""


def test_nobody_hears_of_an_assignment_before_it_is_replicated() -> None:
    harness = ShardHarness()
    leader, _ = joined(harness)
    harness.journal.holds = True
    replies = harness.sync(leader, 1, assignments={leader: b"mine"})
    assert not replies
    before = harness.classic.state
    assert before is ClassicState.COMPLETING_REBALANCE
    harness.journal.release()
    assert replies.error is ErrorCode.NONE
    assert harness.classic.state is ClassicState.STABLE


def test_an_assignment_that_is_written_after_the_next_rebalance_began_does_not_count() -> None:
    harness = ShardHarness()
    leader, (follower,) = joined(harness)
    harness.journal.holds = True
    replies = harness.sync(leader, 1, assignments={leader: b"mine"})
    harness.leave(Leaver(follower))
    assert replies.error is ErrorCode.REBALANCE_IN_PROGRESS
    harness.journal.release()
    assert harness.classic.state is ClassicState.PREPARING_REBALANCE


def test_an_assignment_that_cannot_be_written_begins_a_new_rebalance() -> None:
    harness = ShardHarness()
    leader, (follower,) = joined(harness)
    waiting = harness.sync(follower, 1)
    harness.journal.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.sync(leader, 1, assignments={leader: b"mine"}).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waiting.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.classic.state is ClassicState.PREPARING_REBALANCE


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
        ({}, ErrorCode.NONE),
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "who"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "no"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_says_who_and_what_it_means(fields: dict[str, object], expected: ErrorCode) -> None:
    harness = ShardHarness()
    (member,) = harness.stable()
    given = {"member_id": member, "generation_id": 1} | fields
    assert harness.sync(**given).error is expected  # type: ignore[arg-type]


def test_a_sync_during_a_rebalance_is_refused() -> None:
    harness = ShardHarness()
    leader, follower = harness.stable(2)
    harness.join(leader)
    assert harness.sync(follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_requests_to_groups_that_are_not_there_or_empty() -> None:
    harness = ShardHarness()
    assert harness.sync("who", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("who", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.leave(Leaver("who")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    (member,) = harness.stable()
    harness.leave(Leaver(member))
    assert harness.classic.is_empty
    assert harness.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.sync(member, 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_ask_for_the_assignment_is_removed() -> None:
    harness = ShardHarness()
    leader, (follower,) = joined(harness)
    harness.sync(leader, 1, assignments={})
    for _ in range(6):
        assert harness.heartbeat(leader, 1) is ErrorCode.NONE
        assert harness.heartbeat(follower, 1) is ErrorCode.NONE
        harness.wait(5_000)
    assert harness.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(harness.classic.members) == [leader]


def test_a_member_lives_as_long_as_it_heartbeats() -> None:
    harness = ShardHarness()
    (member,) = harness.stable()
    for _ in range(5):
        harness.wait(9_999)
        assert harness.heartbeat(member, 1) is ErrorCode.NONE
    harness.wait(10_000)
    assert harness.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.classic.is_empty


def test_a_member_that_waits_for_us_needs_no_heartbeats() -> None:
    harness = ShardHarness()
    leader, follower = harness.stable(2, rebalance_timeout_ms=60_000)
    waiting = harness.join(leader, rebalance_timeout_ms=60_000)
    for _ in range(4):
        harness.wait(9_000)
        harness.heartbeat(follower, 1)
    assert not waiting
    assert leader in harness.classic.members


def test_when_the_last_silent_member_is_gone_the_rebalance_goes_on_without_it() -> None:
    harness = ShardHarness()
    leader, _ = harness.stable(2, session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    waiting = harness.join(leader, session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    harness.wait(10_000)
    assert waiting.one["generation_id"] == 2


@pytest.mark.parametrize("generation", [0, 2])
def test_a_heartbeat_of_another_generation(generation: int) -> None:
    harness = ShardHarness()
    (member,) = harness.stable()
    assert harness.heartbeat(member, generation) is ErrorCode.ILLEGAL_GENERATION


def test_members_leave_by_id_or_instance_id_each_with_its_own_answer() -> None:
    harness = ShardHarness()
    harness.join(instance_id="i1")
    harness.join(instance_id="i2")
    harness.stable(1)
    pending = harness.join(requires_member_id=True).one["member_id"]
    dynamic = next(member.member_id for member in harness.classic.members.values() if not member.is_static)
    replies = harness.leave(
        Leaver("", "i1"), Leaver("", "i3"), Leaver("wrong", "i2"), Leaver(pending), Leaver(dynamic), Leaver("who")
    )
    assert replies == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(harness.classic.static_members) == ["i2"]
    assert not harness.classic.pending_members


def test_when_somebody_leaves_the_others_are_told_to_join_again() -> None:
    harness = ShardHarness()
    leader, follower = harness.stable(2)
    assert harness.leave(Leaver(leader)) == [ErrorCode.NONE]
    assert harness.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = harness.join(follower)
    assert (again.one["leader"], again.one["generation_id"]) == (follower, 2)


def test_when_the_last_member_leaves_the_group_is_written_as_empty() -> None:
    harness = ShardHarness()
    (member,) = harness.stable()
    harness.leave(Leaver(member))
    value = harness.journal.records[-1].value
    assert value is not None
    assert (value["members"], value["generation"], value["protocol"], value["leader"]) == ([], 2, None, None)
    assert value["protocolType"] == "consumer"
    assert harness.reloaded().classic.is_empty


def test_a_shard_that_moves_sends_whoever_waits_away() -> None:
    harness = ShardHarness()
    _leader, (follower,) = joined(harness)
    syncing = harness.sync(follower, 1)
    group = harness.classic
    harness.shard.resign()
    assert syncing.error is ErrorCode.NOT_COORDINATOR
    assert group.state is ClassicState.DEAD

    harness = ShardHarness()
    joining = harness.join()
    harness.shard.resign()
    assert joining.error is ErrorCode.NOT_COORDINATOR
    harness.wait(3_600_000)  # no timer of the group is left
