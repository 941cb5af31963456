"""JoinGroup of classic groups, row by row of ``joining``'s table, and the initial rebalance."""

from __future__ import annotations

import pytest

from server.groups.shard_harness import GROUP, ShardHarness
from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.records.classic_records import GROUP_METADATA
from tidelog.server.groups.state.classic_group import ClassicState
from tidelog.server.groups.state.classic_member import Protocol


def test_a_new_dynamic_member_is_told_its_id_first_and_joins_with_it() -> None:
    harness = ShardHarness()
    first = harness.join(requires_member_id=True)
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    member_id = first.one["member_id"]
    assert member_id.startswith("client-")
    assert harness.classic.pending_members == {member_id}
    second = harness.join(member_id, requires_member_id=True)
    harness.wait(3000)
    assert second.error is ErrorCode.NONE
    assert second.one["leader"] == member_id
    assert [member["member_id"] for member in second.one["members"]] == [member_id]
    assert not harness.classic.pending_members


def test_a_member_that_was_told_its_id_and_does_not_come_is_not_waited_for_longer_than_a_session() -> None:
    harness = ShardHarness()
    member_id = harness.join(requires_member_id=True, session_timeout_ms=10_000).one["member_id"]
    waiting = harness.join()
    harness.wait(9_999)
    assert harness.classic.pending_members == {member_id}
    assert waiting.error is ErrorCode.NONE, "the first rebalance ends with its delay, whoever is pending"
    harness.wait(1)
    assert not harness.classic.pending_members


def test_a_rebalance_of_a_group_in_use_waits_for_a_pending_member() -> None:
    harness = ShardHarness()
    (leader,) = harness.stable()
    pending = harness.join(requires_member_id=True).one["member_id"]
    again = harness.join(leader)
    assert harness.classic.state is ClassicState.PREPARING_REBALANCE
    assert not again
    harness.join(pending, requires_member_id=True)
    assert again.error is ErrorCode.NONE
    assert harness.classic.generation_id == 2


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", (Protocol("range", b""),)), ("consumer", ())],
)
def test_a_first_member_names_a_protocol(protocol_type: str, protocols: tuple[Protocol, ...]) -> None:
    replies = ShardHarness().join(protocol_type=protocol_type, protocols=protocols)
    assert replies.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("protocol_type", "name"),
    [("connect", "range"), ("consumer", "sticky")],
)
def test_who_has_no_protocol_in_common_with_the_others_does_not_join(protocol_type: str, name: str) -> None:
    harness = ShardHarness()
    harness.stable()
    replies = harness.join(protocol_type=protocol_type, protocols=(Protocol(name, b""),))
    assert replies.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.classic.state is ClassicState.STABLE


def test_members_that_are_not_known_or_whose_group_is_not_known() -> None:
    harness = ShardHarness()
    assert harness.join("who").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert GROUP not in harness.shard.groups
    harness.stable()
    assert harness.join("who").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_protocol_that_most_members_like_best_of_those_all_know_is_chosen() -> None:
    harness = ShardHarness()
    likes = [("roundrobin", "range"), ("range", "roundrobin"), ("roundrobin", "sticky", "range")]
    joins = [harness.join(protocols=tuple(Protocol(name, name.encode()) for name in names)) for names in likes]
    harness.wait(12_000)
    assert {replies.one["protocol_name"] for replies in joins} == {"roundrobin"}
    leader = next(replies.one for replies in joins if replies.one["leader"] == replies.one["member_id"])
    assert [member["metadata"] for member in leader["members"]] == [b"roundrobin"] * 3


def test_the_first_rebalance_waits_longer_while_members_come_but_no_longer_than_they_allow() -> None:
    harness = ShardHarness(initial_rebalance_delay_ms=3000)
    first = harness.join(rebalance_timeout_ms=7000)
    for _ in range(3):
        harness.wait(2000)
        assert not first
        harness.join(rebalance_timeout_ms=7000)
    harness.wait(1000)
    assert first.error is ErrorCode.NONE
    assert len(harness.classic.members) == 4


def test_the_first_rebalance_does_not_wait_without_a_delay() -> None:
    harness = ShardHarness(initial_rebalance_delay_ms=0)
    replies = harness.join()
    harness.wait(0)
    assert replies.error is ErrorCode.NONE


def test_only_the_leader_hears_who_the_others_are() -> None:
    harness = ShardHarness()
    joins = [harness.join() for _ in range(3)]
    harness.wait(9000)
    sizes = sorted(len(replies.one["members"]) for replies in joins)
    assert sizes == [0, 0, 3]
    assert len({replies.one["generation_id"] for replies in joins}) == 1


def test_a_member_whose_answer_was_lost_gets_it_again_while_the_leader_assigns() -> None:
    harness = ShardHarness()
    joins = [harness.join(), harness.join()]
    harness.wait(9000)
    for replies in joins:
        member_id = replies.one["member_id"]
        assert harness.join(member_id).one == replies.one
    assert harness.classic.state is ClassicState.COMPLETING_REBALANCE


def test_other_protocols_while_the_leader_assigns_begin_a_new_rebalance() -> None:
    harness = ShardHarness()
    first, second = harness.join(), harness.join()
    harness.wait(9000)
    follower = first if first.one["leader"] != first.one["member_id"] else second
    harness.join(follower.one["member_id"], protocols=(Protocol("range", b"other topics"),))
    assert harness.classic.state is ClassicState.PREPARING_REBALANCE


def test_in_a_stable_group_a_follower_is_answered_again_and_the_leader_rebalances() -> None:
    harness = ShardHarness()
    leader, follower = harness.stable(2)
    again = harness.join(follower)
    assert (again.one["generation_id"], again.one["members"]) == (1, [])
    before = harness.classic.state
    assert before is ClassicState.STABLE
    assert not harness.join(leader)
    assert harness.classic.state is ClassicState.PREPARING_REBALANCE


def test_a_follower_with_other_topics_rebalances_a_stable_group() -> None:
    harness = ShardHarness()
    _, follower = harness.stable(2)
    assert not harness.join(follower, protocols=(Protocol("range", b"other topics"),))
    assert harness.classic.state is ClassicState.PREPARING_REBALANCE


def test_dynamic_members_that_do_not_join_again_are_left_out_of_the_next_generation() -> None:
    harness = ShardHarness()
    leader, lost = harness.stable(2)
    again = harness.join(leader, rebalance_timeout_ms=30_000)
    for _ in range(5):  # the member sends heartbeats, but does not join
        harness.wait(5_000)
        assert harness.heartbeat(lost, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    harness.wait(5_000)
    assert again.error is ErrorCode.NONE
    assert list(harness.classic.members) == [leader]
    assert harness.heartbeat(lost, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_that_is_gone_before_the_rebalance_ends_is_removed_at_last() -> None:
    harness = ShardHarness(new_member_join_timeout_ms=60_000)
    (leader,) = harness.stable(rebalance_timeout_ms=600_000)
    newcomer = harness.join(rebalance_timeout_ms=600_000)
    for _ in range(12):
        harness.wait(5_000)
        harness.heartbeat(leader, 1)
    assert newcomer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(harness.classic.members) == [leader]


@pytest.mark.parametrize("state", [ClassicState.PREPARING_REBALANCE, ClassicState.STABLE])
def test_a_group_that_is_full_takes_nobody_else(state: ClassicState) -> None:
    harness = ShardHarness(max_size=2)
    if state is ClassicState.STABLE:
        members = harness.stable(2)
    else:
        members = []
        harness.join(), harness.join()
    assert harness.classic.state is state
    refused = harness.join()
    assert (refused.error, refused.one["member_id"]) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert all(harness.join(member).error is ErrorCode.NONE for member in members[1:]), "members may join again"


def test_a_loaded_group_that_is_too_large_rebalances_to_lose_members() -> None:
    harness = ShardHarness()
    members = harness.stable(3)
    smaller = harness.reloaded(max_size=2)
    assert smaller.classic.state is ClassicState.PREPARING_REBALANCE
    again = [smaller.join(member) for member in members]
    assert [bool(replies) for replies in again] == [False, False, True]
    assert again[2].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_new_group_is_written_before_it_has_a_generation() -> None:
    harness = ShardHarness()
    harness.join(requires_member_id=True)
    (record,) = harness.journal.records
    assert (record.number, record.version, dict(record.key)) == (GROUP_METADATA, 3, {"group": GROUP})
    assert record.value is not None
    assert (record.value["generation"], record.value["members"]) == (0, [])


def test_members_of_a_group_that_cannot_be_written_hear_of_it() -> None:
    harness = ShardHarness()
    harness.journal.error = ErrorCode.NOT_COORDINATOR
    assert harness.join().error is ErrorCode.NOT_COORDINATOR
