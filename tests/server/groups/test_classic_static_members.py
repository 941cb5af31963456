"""Static members of classic groups (KIP-345): a member that joins with a known instance id replaces its predecessor."""

from __future__ import annotations

import pytest

from server.groups.shard_harness import Replies, ShardHarness
from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.state.classic_group import ClassicState
from tidelog.server.groups.state.classic_member import Protocol


def stable(harness: ShardHarness, protocols: tuple[Protocol, ...] = (Protocol("range", b"topics"),)) -> tuple[str, str]:
    """Create a group of two static members. Return the ids of leader ``one`` and follower ``two``."""
    joins: dict[str, Replies] = {}
    for instance_id in ("one", "two"):
        joins[instance_id] = harness.join(instance_id=instance_id, protocols=protocols)
    harness.wait(9000)
    one, two = (str(joins[name].one["member_id"]) for name in ("one", "two"))
    assert one.startswith("one-")
    harness.sync(one, 1, instance_id="one", assignments={one: b"of one", two: b"of two"})
    harness.sync(two, 1, instance_id="two")
    return one, two


def test_a_static_member_that_comes_back_goes_on_without_a_rebalance() -> None:
    harness = ShardHarness()
    _, two = stable(harness)
    back = harness.join(instance_id="two", protocols=(Protocol("range", b"topics"),))
    assert back.one["generation_id"] == 1
    new = str(back.one["member_id"])
    assert new != two
    assert harness.classic.state is ClassicState.STABLE
    assert harness.sync(new, 1, instance_id="two").one["assignment"] == b"of two"
    assert harness.reloaded().classic.static_members["two"] == new


def test_who_had_the_instance_id_before_is_fenced() -> None:
    harness = ShardHarness()
    _, two = stable(harness)
    harness.join(instance_id="two", protocols=(Protocol("range", b"topics"),))
    assert harness.heartbeat(two, 1, instance_id="two") is ErrorCode.FENCED_INSTANCE_ID
    assert harness.sync(two, 1, instance_id="two").error is ErrorCode.FENCED_INSTANCE_ID
    assert harness.join(two, instance_id="two").error is ErrorCode.FENCED_INSTANCE_ID
    assert harness.heartbeat(two, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_comes_back_may_skip_the_assignment() -> None:
    harness = ShardHarness()
    one, _ = stable(harness)
    back = harness.join(instance_id="one", protocols=(Protocol("range", b"topics"),), may_skip_assignment=True)
    assert back.one["skip_assignment"] is True
    assert back.one["leader"] == back.one["member_id"] != one
    assert len(back.one["members"]) == 2


def test_a_leader_of_an_old_client_is_told_its_former_id_so_that_it_does_not_assign() -> None:
    harness = ShardHarness()
    one, _ = stable(harness)
    back = harness.join(instance_id="one", protocols=(Protocol("range", b"topics"),), may_skip_assignment=False)
    assert (back.one["leader"], back.one["members"], back.one["skip_assignment"]) == (one, [], False)


def test_a_replacement_that_cannot_be_written_is_taken_back() -> None:
    harness = ShardHarness()
    _, two = stable(harness)
    harness.journal.error = ErrorCode.NOT_COORDINATOR
    back = harness.join(instance_id="two", protocols=(Protocol("range", b"topics"),))
    assert back.error is ErrorCode.NOT_COORDINATOR
    assert harness.classic.static_members["two"] == two
    assert harness.heartbeat(two, 1, instance_id="two") is ErrorCode.NONE


def test_a_replacement_that_changes_the_protocol_rebalances() -> None:
    harness = ShardHarness()
    both = (Protocol("range", b""), Protocol("sticky", b""))
    stable(harness, both)
    assert harness.classic.protocol_name == "range"
    waiting = harness.join(instance_id="two", protocols=(Protocol("sticky", b""),))
    assert not waiting
    assert harness.classic.state is ClassicState.PREPARING_REBALANCE


def test_a_replacement_while_the_leader_assigns_rebalances() -> None:
    harness = ShardHarness()
    one = harness.join(instance_id="one")
    harness.wait(6000)
    waiting = harness.sync(str(one.one["member_id"]), 2)
    assert waiting.error is ErrorCode.ILLEGAL_GENERATION
    back = harness.join(instance_id="one")
    assert back.one["generation_id"] == 2, "the only member: all have joined at once"


def test_a_replacement_while_the_group_waits_for_members_fences_who_waited() -> None:
    harness = ShardHarness()
    stable(harness)
    waiting = harness.join(instance_id="three")
    back = harness.join(instance_id="three")
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert not back
    assert len(harness.classic.members) == 3


def test_static_members_stay_through_a_rebalance_they_miss_until_their_session_is_over() -> None:
    harness = ShardHarness()
    one, two = stable(harness)
    harness.join("", instance_id="three", session_timeout_ms=60_000, protocols=(Protocol("range", b""),))
    again = harness.join(one, instance_id="one", session_timeout_ms=60_000)
    for _ in range(6):
        harness.wait(5_000)
        harness.heartbeat(two, 1, instance_id="two")
    assert again.one["generation_id"] == 2
    assert two in harness.classic.members
    assert two in [member["member_id"] for member in again.one["members"]]


def test_without_anybody_who_joined_a_rebalance_of_static_members_waits_again() -> None:
    harness = ShardHarness()
    one, two = stable(harness)
    dynamic = harness.join(protocols=(Protocol("range", b""),))
    harness.wait(0)
    harness.leave_quietly(dynamic)
    for _ in range(12):
        harness.wait(5_000)
        for name, member in (("one", one), ("two", two)):
            assert harness.heartbeat(member, 1, instance_id=name) is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.classic.state is ClassicState.PREPARING_REBALANCE
    assert harness.classic.generation_id == 1


@pytest.mark.parametrize("instance_id", ["one", "other"])
def test_an_instance_id_belongs_to_its_member(instance_id: str) -> None:
    harness = ShardHarness()
    _, two = stable(harness)
    expected = ErrorCode.FENCED_INSTANCE_ID if instance_id == "one" else ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat(two, 1, instance_id=instance_id) is expected
