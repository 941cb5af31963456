"""JoinGroup of classic groups, row by row of ``joining``'s table, and the initial rebalance."""

from __future__ import annotations

import pytest

from server.groups.rig import GROUP, Rig
from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.classic.classic_member import Protocol
from tidelog.server.groups.classic.classic_state import ClassicState
from tidelog.server.groups.log.classic_records import GROUP_METADATA


def test_a_new_dynamic_member_is_told_its_id_first_and_joins_with_it() -> None:
    rig = Rig()
    first = rig.join(requires_member_id=True)
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    member_id = first.one["member_id"]
    assert member_id.startswith("client-")
    assert rig.classic.pending_members == {member_id}
    second = rig.join(member_id, requires_member_id=True)
    rig.wait(3000)
    assert second.error is ErrorCode.NONE
    assert second.one["leader"] == member_id
    assert [member["member_id"] for member in second.one["members"]] == [member_id]
    assert not rig.classic.pending_members


def test_a_member_that_was_told_its_id_and_does_not_come_is_not_waited_for_longer_than_a_session() -> None:
    rig = Rig()
    member_id = rig.join(requires_member_id=True, session_timeout_ms=10_000).one["member_id"]
    waiting = rig.join()
    rig.wait(9_999)
    assert rig.classic.pending_members == {member_id}
    assert waiting.error is ErrorCode.NONE, "the first rebalance ends with its delay, whoever is pending"
    rig.wait(1)
    assert not rig.classic.pending_members


def test_a_rebalance_of_a_group_in_use_waits_for_a_pending_member() -> None:
    rig = Rig()
    (leader,) = rig.stable()
    pending = rig.join(requires_member_id=True).one["member_id"]
    again = rig.join(leader)
    assert rig.classic.state is ClassicState.PREPARING_REBALANCE
    assert not again
    rig.join(pending, requires_member_id=True)
    assert again.error is ErrorCode.NONE
    assert rig.classic.generation_id == 2


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", (Protocol("range", b""),)), ("consumer", ())],
)
def test_a_first_member_names_a_protocol(protocol_type: str, protocols: tuple[Protocol, ...]) -> None:
    answers = Rig().join(protocol_type=protocol_type, protocols=protocols)
    assert answers.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("protocol_type", "name"),
    [("connect", "range"), ("consumer", "sticky")],
)
def test_who_has_no_protocol_in_common_with_the_others_does_not_join(protocol_type: str, name: str) -> None:
    rig = Rig()
    rig.stable()
    answers = rig.join(protocol_type=protocol_type, protocols=(Protocol(name, b""),))
    assert answers.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert rig.classic.state is ClassicState.STABLE


def test_members_that_are_not_known_or_whose_group_is_not_known() -> None:
    rig = Rig()
    assert rig.join("who").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert GROUP not in rig.shard.groups
    rig.stable()
    assert rig.join("who").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_protocol_that_most_members_like_best_of_those_all_know_is_chosen() -> None:
    rig = Rig()
    likes = [("roundrobin", "range"), ("range", "roundrobin"), ("roundrobin", "sticky", "range")]
    joins = [rig.join(protocols=tuple(Protocol(name, name.encode()) for name in names)) for names in likes]
    rig.wait(12_000)
    assert {answers.one["protocol_name"] for answers in joins} == {"roundrobin"}
    leader = next(answers.one for answers in joins if answers.one["leader"] == answers.one["member_id"])
    assert [member["metadata"] for member in leader["members"]] == [b"roundrobin"] * 3


def test_the_first_rebalance_waits_longer_while_members_come_but_no_longer_than_they_allow() -> None:
    rig = Rig(initial_rebalance_delay_ms=3000)
    first = rig.join(rebalance_timeout_ms=7000)
    for _ in range(3):
        rig.wait(2000)
        assert not first
        rig.join(rebalance_timeout_ms=7000)
    rig.wait(1000)
    assert first.error is ErrorCode.NONE
    assert len(rig.classic.members) == 4


def test_the_first_rebalance_does_not_wait_without_a_delay() -> None:
    rig = Rig(initial_rebalance_delay_ms=0)
    answers = rig.join()
    rig.wait(0)
    assert answers.error is ErrorCode.NONE


def test_only_the_leader_hears_who_the_others_are() -> None:
    rig = Rig()
    joins = [rig.join() for _ in range(3)]
    rig.wait(9000)
    sizes = sorted(len(answers.one["members"]) for answers in joins)
    assert sizes == [0, 0, 3]
    assert len({answers.one["generation_id"] for answers in joins}) == 1


def test_a_member_whose_answer_was_lost_gets_it_again_while_the_leader_assigns() -> None:
    rig = Rig()
    joins = [rig.join(), rig.join()]
    rig.wait(9000)
    for answers in joins:
        member_id = answers.one["member_id"]
        assert rig.join(member_id).one == answers.one
    assert rig.classic.state is ClassicState.COMPLETING_REBALANCE


def test_other_protocols_while_the_leader_assigns_begin_a_new_rebalance() -> None:
    rig = Rig()
    first, second = rig.join(), rig.join()
    rig.wait(9000)
    follower = first if first.one["leader"] != first.one["member_id"] else second
    rig.join(follower.one["member_id"], protocols=(Protocol("range", b"other topics"),))
    assert rig.classic.state is ClassicState.PREPARING_REBALANCE


def test_in_a_stable_group_a_follower_is_answered_again_and_the_leader_rebalances() -> None:
    rig = Rig()
    leader, follower = rig.stable(2)
    again = rig.join(follower)
    assert (again.one["generation_id"], again.one["members"]) == (1, [])
    assert rig.classic.state is ClassicState.STABLE
    assert not rig.join(leader)
    assert rig.classic.state is ClassicState.PREPARING_REBALANCE


def test_a_follower_with_other_topics_rebalances_a_stable_group() -> None:
    rig = Rig()
    _, follower = rig.stable(2)
    assert not rig.join(follower, protocols=(Protocol("range", b"other topics"),))
    assert rig.classic.state is ClassicState.PREPARING_REBALANCE


def test_dynamic_members_that_do_not_join_again_are_left_out_of_the_next_generation() -> None:
    rig = Rig()
    leader, lost = rig.stable(2)
    again = rig.join(leader, rebalance_timeout_ms=30_000)
    for _ in range(5):  # the member sends heartbeats, but does not join
        rig.wait(5_000)
        assert rig.heartbeat(lost, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    rig.wait(5_000)
    assert again.error is ErrorCode.NONE
    assert list(rig.classic.members) == [leader]
    assert rig.heartbeat(lost, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_that_is_gone_before_the_rebalance_ends_is_removed_at_last() -> None:
    rig = Rig(new_member_join_timeout_ms=60_000)
    (leader,) = rig.stable(rebalance_timeout_ms=600_000)
    newcomer = rig.join(rebalance_timeout_ms=600_000)
    for _ in range(12):
        rig.wait(5_000)
        rig.heartbeat(leader, 1)
    assert newcomer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(rig.classic.members) == [leader]


@pytest.mark.parametrize("state", [ClassicState.PREPARING_REBALANCE, ClassicState.STABLE])
def test_a_group_that_is_full_takes_nobody_else(state: ClassicState) -> None:
    rig = Rig(max_size=2)
    if state is ClassicState.STABLE:
        members = rig.stable(2)
    else:
        members = []
        rig.join(), rig.join()
    assert rig.classic.state is state
    refused = rig.join()
    assert (refused.error, refused.one["member_id"]) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert all(rig.join(member).error is ErrorCode.NONE for member in members[1:]), "members may join again"


def test_a_loaded_group_that_is_too_large_rebalances_to_lose_members() -> None:
    rig = Rig()
    members = rig.stable(3)
    smaller = rig.reloaded(max_size=2)
    assert smaller.classic.state is ClassicState.PREPARING_REBALANCE
    again = [smaller.join(member) for member in members]
    assert [bool(answers) for answers in again] == [False, False, True]
    assert again[2].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_new_group_is_written_before_it_has_a_generation() -> None:
    rig = Rig()
    rig.join(requires_member_id=True)
    (record,) = rig.journal.records
    assert (record.number, record.version, dict(record.key)) == (GROUP_METADATA, 3, {"group": GROUP})
    assert record.value is not None
    assert (record.value["generation"], record.value["members"]) == (0, [])


def test_members_of_a_group_that_cannot_be_written_hear_of_it() -> None:
    rig = Rig()
    rig.journal.error = ErrorCode.NOT_COORDINATOR
    assert rig.join().error is ErrorCode.NOT_COORDINATOR
