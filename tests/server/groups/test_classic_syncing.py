"""SyncGroup, Heartbeat and LeaveGroup of classic groups; sessions; failed writes."""

from __future__ import annotations

import pytest

from server.groups.rig import Rig
from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.classic.classic_state import ClassicState
from tidelog.server.groups.classic.leaving import Leaver


def joined(rig: Rig, count: int = 2) -> tuple[str, list[str]]:
    """Return the leader and the followers of a group whose leader has not assigned yet."""
    joins = [rig.join() for _ in range(count)]
    rig.wait(rig.settings.initial_rebalance_delay_ms * (count + 1))
    ids = [str(answers.one["member_id"]) for answers in joins]
    leader = str(joins[0].one["leader"])
    return leader, [member_id for member_id in ids if member_id != leader]


def test_followers_wait_for_the_leaders_assignment_and_get_their_part() -> None:
    rig = Rig()
    leader, (follower,) = joined(rig)
    waiting = rig.sync(follower, 1)
    assert not waiting
    own = rig.sync(leader, 1, assignments={leader: b"mine", follower: b"yours"})
    assert own.one["assignment"] == b"mine"
    assert waiting.one == {
        "error_code": ErrorCode.NONE,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignment": b"yours",
    }
    assert rig.classic.state is ClassicState.STABLE
    assert rig.sync(follower, 1).one["assignment"] == b"yours", "asked again"


def test_members_that_the_leader_forgot_get_nothing() -> None:
    rig = Rig()
    leader, (follower,) = joined(rig)
    rig.sync(leader, 1, assignments={leader: b"all"})
    assert rig.sync(follower, 1).one["assignment"] == b""


def test_nobody_hears_of_an_assignment_before_it_is_replicated() -> None:
    rig = Rig()
    leader, _ = joined(rig)
    rig.journal.holds = True
    answers = rig.sync(leader, 1, assignments={leader: b"mine"})
    assert not answers
    assert rig.classic.state is ClassicState.COMPLETING_REBALANCE
    rig.journal.release()
    assert answers.error is ErrorCode.NONE
    assert rig.classic.state is ClassicState.STABLE


def test_an_assignment_that_is_written_after_the_next_rebalance_began_does_not_count() -> None:
    rig = Rig()
    leader, (follower,) = joined(rig)
    rig.journal.holds = True
    answers = rig.sync(leader, 1, assignments={leader: b"mine"})
    rig.leave(Leaver(follower))
    assert answers.error is ErrorCode.REBALANCE_IN_PROGRESS
    rig.journal.release()
    assert rig.classic.state is ClassicState.PREPARING_REBALANCE


def test_an_assignment_that_cannot_be_written_begins_a_new_rebalance() -> None:
    rig = Rig()
    leader, (follower,) = joined(rig)
    waiting = rig.sync(follower, 1)
    rig.journal.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert rig.sync(leader, 1, assignments={leader: b"mine"}).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert waiting.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert rig.classic.state is ClassicState.PREPARING_REBALANCE


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
    rig = Rig()
    (member,) = rig.stable()
    given = {"member_id": member, "generation_id": 1} | fields
    assert rig.sync(**given).error is expected  # type: ignore[arg-type]


def test_a_sync_during_a_rebalance_is_refused() -> None:
    rig = Rig()
    leader, follower = rig.stable(2)
    rig.join(leader)
    assert rig.sync(follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_requests_to_groups_that_are_not_there_or_empty() -> None:
    rig = Rig()
    assert rig.sync("who", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.heartbeat("who", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.leave(Leaver("who")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    (member,) = rig.stable()
    rig.leave(Leaver(member))
    assert rig.classic.is_empty
    assert rig.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.sync(member, 1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_ask_for_the_assignment_is_removed() -> None:
    rig = Rig()
    leader, (follower,) = joined(rig)
    rig.sync(leader, 1, assignments={})
    for _ in range(6):
        assert rig.heartbeat(leader, 1) is ErrorCode.NONE
        assert rig.heartbeat(follower, 1) is ErrorCode.NONE
        rig.wait(5_000)
    assert rig.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(rig.classic.members) == [leader]


def test_a_member_lives_as_long_as_it_heartbeats() -> None:
    rig = Rig()
    (member,) = rig.stable()
    for _ in range(5):
        rig.wait(9_999)
        assert rig.heartbeat(member, 1) is ErrorCode.NONE
    rig.wait(10_000)
    assert rig.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.classic.is_empty


def test_a_member_that_waits_for_us_needs_no_heartbeats() -> None:
    rig = Rig()
    leader, follower = rig.stable(2, rebalance_timeout_ms=60_000)
    waiting = rig.join(leader, rebalance_timeout_ms=60_000)
    for _ in range(4):
        rig.wait(9_000)
        rig.heartbeat(follower, 1)
    assert not waiting
    assert leader in rig.classic.members


def test_when_the_last_silent_member_is_gone_the_rebalance_goes_on_without_it() -> None:
    rig = Rig()
    leader, _ = rig.stable(2, session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    waiting = rig.join(leader, session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    rig.wait(10_000)
    assert waiting.one["generation_id"] == 2


@pytest.mark.parametrize("generation", [0, 2])
def test_a_heartbeat_of_another_generation(generation: int) -> None:
    rig = Rig()
    (member,) = rig.stable()
    assert rig.heartbeat(member, generation) is ErrorCode.ILLEGAL_GENERATION


def test_members_leave_by_id_or_instance_id_each_with_its_own_answer() -> None:
    rig = Rig()
    rig.join(instance_id="i1")
    rig.join(instance_id="i2")
    rig.stable(1)
    pending = rig.join(requires_member_id=True).one["member_id"]
    dynamic = next(member.member_id for member in rig.classic.members.values() if not member.is_static)
    answers = rig.leave(
        Leaver("", "i1"), Leaver("", "i3"), Leaver("wrong", "i2"), Leaver(pending), Leaver(dynamic), Leaver("who")
    )
    assert answers == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert list(rig.classic.static_members) == ["i2"]
    assert not rig.classic.pending_members


def test_when_somebody_leaves_the_others_are_told_to_join_again() -> None:
    rig = Rig()
    leader, follower = rig.stable(2)
    assert rig.leave(Leaver(leader)) == [ErrorCode.NONE]
    assert rig.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = rig.join(follower)
    assert (again.one["leader"], again.one["generation_id"]) == (follower, 2)


def test_when_the_last_member_leaves_the_group_is_written_as_empty() -> None:
    rig = Rig()
    (member,) = rig.stable()
    rig.leave(Leaver(member))
    value = rig.journal.records[-1].value
    assert value is not None
    assert (value["members"], value["generation"], value["protocol"], value["leader"]) == ([], 2, None, None)
    assert value["protocolType"] == "consumer"
    assert rig.reloaded().classic.is_empty


def test_a_shard_that_moves_sends_whoever_waits_away() -> None:
    rig = Rig()
    _leader, (follower,) = joined(rig)
    syncing = rig.sync(follower, 1)
    group = rig.classic
    rig.shard.abandon()
    assert syncing.error is ErrorCode.NOT_COORDINATOR
    assert group.state is ClassicState.DEAD

    rig = Rig()
    joining = rig.join()
    rig.shard.abandon()
    assert joining.error is ErrorCode.NOT_COORDINATOR
    rig.wait(3_600_000)  # no timer of the group is left
