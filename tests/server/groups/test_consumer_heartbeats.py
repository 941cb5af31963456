"""ConsumerGroupHeartbeat: joining, epochs, revocation before assignment, leaving, timeouts, static members."""

from __future__ import annotations

import pytest

from server.groups.shard_harness import Consumer, MemoryTopics, ShardHarness, settle
from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.records import consumer_records
from tidelog.server.groups.state.consumer_group import ConsumerGroupState
from tidelog.server.groups.state.consumer_member import MemberState
from tidelog.server.groups.state.settings import ConsumerGroupSettings, GroupTimeouts


def harness(**settings: object) -> ShardHarness:
    return ShardHarness(MemoryTopics(a=6), consumer=ConsumerGroupSettings(**settings))  # type: ignore[arg-type]


def of_a(*numbers: int) -> set[tuple[str, int]]:
    return {("a", number) for number in numbers}


def test_the_first_member_gets_everything_at_once() -> None:
    group = harness()
    answer = group.beat("m1", 0).one
    assert (answer["member_epoch"], answer["heartbeat_interval"]) == (2, 5000)
    assert answer["assignment"]["topic_partitions"] == [
        {"topic_id": group.topics.make("a", 6), "partitions": [0, 1, 2, 3, 4, 5]}
    ]
    assert group.consumer.state is ConsumerGroupState.STABLE


def test_a_member_without_an_id_is_given_one() -> None:
    assert len(harness().beat("", 0).one["member_id"]) == 36


def test_records_of_a_join_are_written_in_kafkas_order() -> None:
    group = harness()
    group.beat("m1", 0)
    assert [record.number for record in group.journal.records] == [
        consumer_records.MEMBER,
        consumer_records.GROUP_EPOCH,
        consumer_records.TARGET,
        consumer_records.TARGET_EPOCH,
        consumer_records.CURRENT,
    ]


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_says_little() -> None:
    group = harness()
    one = Consumer(group, "m1")
    settle(one)
    written = len(group.journal.lines)
    answer = group.beat("m1", 2).one
    assert "assignment" not in answer
    assert len(group.journal.lines) == written


def test_a_partition_is_given_to_another_member_only_after_the_first_one_gave_it_up() -> None:
    group = harness()
    one, two = Consumer(group, "m1"), Consumer(group, "m2")
    one.beat()
    two.beat()
    assert (two.epoch, two.partitions) == (3, set())
    assert group.consumer.members["m2"].state is MemberState.UNRELEASED_PARTITIONS
    kept = dict(one.owned)
    one.beat()
    assert (one.epoch, len(one.partitions)) == (2, 3), "told to give up three, and not at the next epoch yet"
    two.beat()
    assert two.partitions == set()
    revoked_too_late = group.beat("m1", 2, owned=kept)
    assert revoked_too_late.one["member_epoch"] == 2, "it still has them"
    two.beat()
    assert two.partitions == set()
    one.beat()
    two.beat()
    assert (one.epoch, two.epoch) == (3, 3)
    assert one.partitions | two.partitions == of_a(*range(6))
    assert group.consumer.state is ConsumerGroupState.STABLE


def test_who_does_not_give_up_partitions_in_time_is_removed() -> None:
    group = harness()
    one, two = Consumer(group, "m1"), Consumer(group, "m2")
    one.beat(), two.beat(), one.beat()
    for _ in range(6):
        group.wait(5_000)
        group.beat("m1", 2)
        two.beat()
    assert group.beat("m1", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    two.beat()
    assert two.partitions == of_a(*range(6))


def test_a_member_that_is_silent_for_a_session_is_removed() -> None:
    group = ShardHarness(MemoryTopics(a=6), timeouts=GroupTimeouts(session_timeout_ms=50_000, assignment_interval_ms=0))
    one, two = Consumer(group, "m1"), Consumer(group, "m2")
    settle(one, two)
    for _ in range(10):
        group.wait(5_000)
        two.beat()
    assert one.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    settle(two)
    assert two.partitions == of_a(*range(6))


def test_a_removal_that_cannot_be_written_is_tried_again() -> None:
    group = harness()
    Consumer(group, "m1").beat()
    group.journal.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    group.wait(45_000)
    assert "m1" in group.consumer.members
    group.journal.error = ErrorCode.NONE
    group.wait(500)
    assert group.consumer.is_empty


def test_a_member_that_leaves_is_gone_at_once() -> None:
    group = harness()
    one, two = Consumer(group, "m1"), Consumer(group, "m2")
    settle(one, two)
    assert one.leave() is ErrorCode.NONE
    settle(two, rounds=1)
    assert two.partitions == of_a(*range(6))
    assert two.leave() is ErrorCode.NONE
    assert group.consumer.state is ConsumerGroupState.EMPTY


@pytest.mark.parametrize(("epoch", "owned", "error"), [
    (4, None, ErrorCode.FENCED_MEMBER_EPOCH),
    (3, None, ErrorCode.NONE),
    (2, {}, ErrorCode.NONE),
    (2, None, ErrorCode.FENCED_MEMBER_EPOCH),
    (0, {}, ErrorCode.FENCED_MEMBER_EPOCH),
])  # fmt: skip
def test_epochs(epoch: int, owned: object, error: ErrorCode) -> None:
    """The previous epoch is valid for a member that missed a response, if it owns no other partitions."""
    group = harness()
    one, two = Consumer(group, "m1"), Consumer(group, "m2")
    settle(one, two)
    assert (one.epoch, group.consumer.members["m1"].previous_member_epoch) == (3, 2)
    assert group.beat("m1", epoch, owned=owned).error is error


def test_requests_to_groups_and_members_that_are_not_there() -> None:
    group = harness()
    assert group.beat("m1", 2).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.beat("m1", -1).error is ErrorCode.GROUP_ID_NOT_FOUND
    group.beat("m1", 0)
    assert group.beat("who", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat("who", -1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_is_full_takes_nobody_else() -> None:
    group = harness(max_size=1)
    group.beat("m1", 0)
    assert group.beat("m2", 0).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.beat("m1", 2).error is ErrorCode.NONE


def test_a_change_that_cannot_be_written_did_not_happen() -> None:
    group = harness()
    group.journal.error = ErrorCode.NOT_COORDINATOR
    assert group.beat("m1", 0).error is ErrorCode.NOT_COORDINATOR
    assert not group.shard.groups
    group.journal.error = ErrorCode.NONE
    assert group.beat("m1", 0).one["member_epoch"] == 2


def test_a_member_that_reads_other_topics_gets_another_assignment() -> None:
    group = ShardHarness(MemoryTopics(a=2, b=2))
    one = Consumer(group, "m1", topic_names=frozenset({"a"}))
    settle(one)
    assert one.partitions == of_a(0, 1)
    replies = group.beat("m1", one.epoch, topic_names=frozenset({"b"}), owned=one.owned)
    assert replies.one["assignment"]["topic_partitions"] == []
    one.owned = {}
    settle(one)
    assert one.partitions == {("b", 0), ("b", 1)}
    assert group.consumer.group_epoch == 3


def test_new_partitions_and_deleted_topics_are_noticed_with_the_next_heartbeat() -> None:
    group = harness()
    one = Consumer(group, "m1", topic_names=frozenset({"a", "later"}))
    settle(one)
    group.topics.make("a", 8)
    group.shard.mark_topics_changed(frozenset({"a"}))
    settle(one)
    assert one.partitions == of_a(*range(8))
    group.topics.make("later", 1)
    group.shard.mark_topics_changed(frozenset({"later"}))
    settle(one)
    assert ("later", 0) in one.partitions
    group.topics.delete("a")
    group.shard.mark_topics_changed(frozenset({"a"}))
    settle(one)
    assert one.partitions == {("later", 0)}
    assert group.consumer.group_epoch == 5


def test_a_change_of_a_topic_nobody_reads_changes_nothing() -> None:
    group = harness()
    one = Consumer(group, "m1", topic_names=frozenset({"a"}))
    settle(one)
    group.topics.make("b", 3)
    group.shard.mark_topics_changed(frozenset({"b"}))
    settle(one)
    assert group.consumer.group_epoch == 2


def test_a_new_coordinator_rebalances_nothing_that_is_as_it_was() -> None:
    group = harness()
    one, two = Consumer(group, "m1"), Consumer(group, "m2")
    settle(one, two)
    again = group.reloaded()
    one.harness = two.harness = again
    written = len(again.journal.lines)
    settle(one, two)
    assert len(again.journal.lines) == written
    assert again.consumer.state is ConsumerGroupState.STABLE


def test_a_tombstone_of_an_assignment_leaves_the_member_without_partitions() -> None:
    group = harness()
    Consumer(group, "m1").beat()
    current = consumer_records.member_tombstones("g", "m1")[0]
    group.journal.write([current], lambda _error: None)
    member = group.reloaded().consumer.members["m1"]
    assert (member.member_epoch, member.assigned, member.topic_names) == (-1, {}, frozenset({"a"}))


def test_tombstones_of_a_group_that_is_unknown_do_nothing() -> None:
    group = harness()
    group.journal.write(consumer_records.member_tombstones("g", "m1"), lambda _error: None)
    assert not group.reloaded().shard.groups


def test_a_new_coordinator_waits_one_session_for_the_members_and_for_what_they_are_to_give_up() -> None:
    group = harness()
    one, two = Consumer(group, "m1"), Consumer(group, "m2")
    one.beat(), two.beat(), one.beat()
    again = group.reloaded()
    two.harness = again
    for _ in range(6):
        again.wait(5_000)
        again.beat("m1", 2)
        two.beat()
    assert list(again.consumer.members) == ["m2"]


def test_the_assignor_that_most_members_name_is_taken() -> None:
    group = ShardHarness(MemoryTopics(a=3, b=3))
    members = [
        Consumer(group, f"m{number}", assignor=name) for number, name in enumerate(("range", "range", "uniform"))
    ]
    settle(*members)
    assert sorted(len(member.partitions) for member in members) == [2, 2, 2]
    assert {number for member in members[:1] for _, number in member.partitions} == {0}


def test_between_two_target_assignments_is_the_groups_interval() -> None:
    """The first target assignment is computed immediately. The next one waits for the interval."""
    group = ShardHarness(MemoryTopics(a=6), timeouts=GroupTimeouts(assignment_interval_ms=1_000))
    one, two, three = (Consumer(group, f"m{number}") for number in range(3))
    one.beat()
    assert one.partitions == of_a(*range(6))
    two.beat()
    assert (two.epoch, two.partitions, group.consumer.state) == (2, set(), ConsumerGroupState.ASSIGNING)
    one.beat()
    group.wait(999)
    three.beat()
    assert (group.consumer.group_epoch, group.consumer.assignment_epoch) == (4, 2)
    group.wait(1)
    assert (group.consumer.group_epoch, group.consumer.assignment_epoch) == (4, 4)
    settle(one, two, three)
    assert [len(member.partitions) for member in (one, two, three)] == [2, 2, 2]


def test_a_member_that_names_another_assignor_makes_another_epoch() -> None:
    group = ShardHarness(MemoryTopics(a=3))
    one = Consumer(group, "m1")
    settle(one)
    group.beat("m1", one.epoch, assignor="uniform")
    assert group.consumer.group_epoch == 2, "that is the default"
    group.beat("m1", one.epoch, assignor="range")
    assert group.consumer.group_epoch == 3


# --- static members ---


def test_a_static_member_that_is_away_keeps_its_partitions() -> None:
    group = harness()
    one = Consumer(group, "m1", instance_id="i1")
    two = Consumer(group, "m2", instance_id="i2")
    settle(one, two)
    before = two.partitions
    assert group.beat("m2", -2, instance_id="i2").one["member_epoch"] == -2
    assert [one.beat() for _ in range(6)] == [ErrorCode.NONE] * 6
    assert group.consumer.state is ConsumerGroupState.RECONCILING, "a member that is away has no target epoch"
    assert len(one.partitions) == 3, "no other member gets them"
    back = Consumer(group, "m3", instance_id="i2")
    settle(back)
    assert back.partitions == before
    assert group.consumer.group_epoch == 3, "no member had to rebalance"
    assert group.beat("m2", 3, instance_id="i2").error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_loses_its_partitions() -> None:
    group = harness()
    one = Consumer(group, "m1", instance_id="i1")
    two = Consumer(group, "m2", instance_id="i2")
    settle(one, two)
    group.beat("m2", -2, instance_id="i2")
    for _ in range(9):
        group.wait(5_000)
        one.beat()
    settle(one)
    assert one.partitions == of_a(*range(6))


@pytest.mark.parametrize(("member_id", "epoch", "instance_id", "error"), [
    ("m2", 0, "i1", ErrorCode.UNRELEASED_INSTANCE_ID),
    ("m2", 1, "i1", ErrorCode.FENCED_INSTANCE_ID),
    ("m2", -1, "i1", ErrorCode.FENCED_INSTANCE_ID),
    ("m1", 1, "i9", ErrorCode.UNKNOWN_MEMBER_ID),
    ("m1", -2, "i9", ErrorCode.UNKNOWN_MEMBER_ID),
    ("m1", 2, "i1", ErrorCode.NONE),
])  # fmt: skip
def test_an_instance_id_belongs_to_its_member(member_id: str, epoch: int, instance_id: str, error: ErrorCode) -> None:
    group = harness()
    group.beat("m1", 0, instance_id="i1")
    assert group.beat(member_id, epoch, instance_id=instance_id).error is error


def test_a_static_member_that_leaves_for_good_is_removed() -> None:
    group = harness()
    group.beat("m1", 0, instance_id="i1")
    assert group.beat("m1", -1, instance_id="i1").one["member_epoch"] == -1
    assert group.consumer.is_empty
    assert not group.consumer.static_members


# --- groups of the other type ---


def test_an_empty_classic_group_becomes_a_consumer_group_and_back() -> None:
    group = harness()
    group.stable()
    group.wait(10_000)
    assert group.classic.is_empty
    one = Consumer(group, "m1")
    settle(one)
    assert group.consumer.group_epoch == 2
    one.leave()
    group.stable()
    assert group.classic.generation_id == 1
    assert group.reloaded().classic.generation_id == 1
