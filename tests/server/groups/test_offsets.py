"""Committed offsets: membership checks, transactions, metadata, deletion and expiry."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from server.groups.shard_harness import GROUP, Consumer, MemoryTopics, Replies, ShardHarness, call_replying, settle
from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.committed_offset import OFFSET
from tidelog.server.groups.classic.member_requests import Leaver, MemberClaim
from tidelog.server.groups.offsets.commit_rules import CommitClaim, check_fetch
from tidelog.server.groups.offsets.commits import OffsetToCommit
from tidelog.server.groups.state.classic_member import Protocol
from tidelog.server.groups.state.consumer_protocol import write_assignment
from tidelog.server.groups.state.journal import TransactionalProducer

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
MINUTE = 60_000
HOUR = 60 * MINUTE


def claim(member_id: str = "", generation_id: int = -1, instance_id: str | None = None, **fields: Any) -> CommitClaim:
    member = MemberClaim(group_id=GROUP, member_id=member_id, generation_id=generation_id, instance_id=instance_id)
    return CommitClaim(member=member, **{"version": 9, **fields})


def commit(harness: ShardHarness, said: CommitClaim, *offsets: OffsetToCommit, **fields: Any) -> ErrorCode:
    """Return the error of the whole commit, or of its first partition."""
    offsets = offsets or (OffsetToCommit(A0, 5),)
    replies = Replies()
    try:
        harness.shard.commits.commit(said, offsets, replies, **fields)
    except ApiError as error:
        return error.code
    return ErrorCode(replies.one[offsets[0].partition])


def commit_in_transaction(
    harness: ShardHarness, producer_id: int, *offsets: OffsetToCommit, **fields: Any
) -> ErrorCode:
    replies = Replies()
    producer = TransactionalProducer(producer_id=producer_id, producer_epoch=0)
    try:
        harness.shard.commits.commit_transactional(claim(is_transactional=True, **fields), producer, offsets, replies)
    except ApiError as error:
        return error.code
    return ErrorCode(replies.one[offsets[0].partition])


def offset(harness: ShardHarness, partition: TopicPartition = A0) -> int | None:
    committed = harness.shard.offsets.of_group(GROUP).get(partition)
    return None if committed is None else committed.offset


def subscription(*topics: str) -> bytes:
    """Return a consumer's subscription, version 0."""
    text = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + text + b"\xff\xff\xff\xff"


# --- membership ---


def test_an_offset_of_no_group_makes_one_that_has_only_offsets() -> None:
    harness = ShardHarness()
    assert commit(harness, claim()) is ErrorCode.NONE
    assert harness.classic.protocol_type is None, "no member ever joined"
    assert offset(harness.reloaded()) == 5


@pytest.mark.parametrize(("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_no_group(version: int, error: ErrorCode) -> None:
    assert commit(ShardHarness(), claim("m", 3, version=version)) is error


@pytest.mark.parametrize(("member_id", "generation", "instance_id", "error"), [
    ("", -1, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ("who", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ("MEMBER", 2, None, ErrorCode.ILLEGAL_GENERATION),
    ("MEMBER", 1, "i", ErrorCode.UNKNOWN_MEMBER_ID),
    ("MEMBER", 1, None, ErrorCode.NONE),
])  # fmt: skip
def test_commits_to_a_classic_group(member_id: str, generation: int, instance_id: str | None, error: ErrorCode) -> None:
    harness = ShardHarness()
    (member,) = harness.stable()
    assert commit(harness, claim(member_id.replace("MEMBER", member), generation, instance_id)) is error


def test_a_commit_while_the_leader_assigns_has_to_wait() -> None:
    harness = ShardHarness()
    replies = harness.join()
    harness.wait(3000)
    member = replies.one["member_id"]
    assert commit(harness, claim(member, 1)) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit_in_transaction(harness, 7, OffsetToCommit(A0, 1)) is ErrorCode.NONE


def test_a_commit_is_a_heartbeat() -> None:
    harness = ShardHarness()
    (member,) = harness.stable()
    for _ in range(4):
        harness.wait(9_000)
        assert commit(harness, claim(member, 1)) is ErrorCode.NONE
    assert member in harness.classic.members


@pytest.mark.parametrize(("member_id", "epoch", "fields", "error"), [
    ("m1", 2, {}, ErrorCode.NONE),
    ("m1", 1, {}, ErrorCode.STALE_MEMBER_EPOCH),
    ("m1", 3, {}, ErrorCode.STALE_MEMBER_EPOCH),
    ("m1", 1, {"version": 8}, ErrorCode.UNSUPPORTED_VERSION),
    ("who", 1, {}, ErrorCode.UNKNOWN_MEMBER_ID),
    ("", -1, {}, ErrorCode.UNKNOWN_MEMBER_ID),
])  # fmt: skip
def test_commits_to_a_consumer_group(member_id: str, epoch: int, fields: dict[str, Any], error: ErrorCode) -> None:
    harness = ShardHarness(MemoryTopics(a=1))
    harness.beat("m1", 0)
    assert commit(harness, claim(member_id, epoch, **fields)) is error


@pytest.mark.parametrize(("epoch", "partition", "error"), [
    (2, 0, ErrorCode.NONE),
    (2, 1, ErrorCode.STALE_MEMBER_EPOCH),
    (1, 0, ErrorCode.STALE_MEMBER_EPOCH),
    (3, 1, ErrorCode.NONE),
])  # fmt: skip
def test_an_older_epoch_commits_what_the_member_had_in_it(epoch: int, partition: int, error: ErrorCode) -> None:
    """KIP-1251: the member keeps one partition, and another member receives the other one."""
    harness = ShardHarness(MemoryTopics(a=2))
    one, two = Consumer(harness, "m1"), Consumer(harness, "m2")
    one.beat()
    settle(one, two)
    assert (one.epoch, one.partitions, two.partitions) == (3, {("a", 0)}, {("a", 1)})
    offset = OffsetToCommit(TopicPartition("a", partition), 5)
    assert commit(harness, claim("m1", epoch), offset) is error


def test_transactions_commit_to_consumer_groups_with_or_without_a_member() -> None:
    harness = ShardHarness(MemoryTopics(a=1))
    harness.beat("m1", 0)
    assert commit_in_transaction(harness, 7, OffsetToCommit(A0, 1)) is ErrorCode.NONE
    producer, replies = TransactionalProducer(producer_id=7, producer_epoch=0), Replies()
    with pytest.raises(ApiError) as raised:
        harness.shard.commits.commit_transactional(claim("m1", 9, is_transactional=True), producer, [], replies)
    assert raised.value.code is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(("member_id", "epoch", "error"), [
    (None, -1, None),
    ("m1", 2, None),
    ("m1", 1, ErrorCode.STALE_MEMBER_EPOCH),
    ("who", 1, ErrorCode.UNKNOWN_MEMBER_ID),
])  # fmt: skip
def test_who_says_that_it_is_a_member_has_to_be_one_to_fetch(
    member_id: str | None, epoch: int, error: ErrorCode | None
) -> None:
    harness = ShardHarness(MemoryTopics(a=1))
    harness.beat("m1", 0)
    replies = Replies()
    call_replying(replies, lambda: check_fetch(harness.consumer, member_id, epoch))
    assert [answer["error_code"] for answer in replies] == ([] if error is None else [error])


# --- stored offsets ---


def test_what_a_commit_says_is_kept() -> None:
    harness = ShardHarness()
    commit(harness, claim(), OffsetToCommit(A0, 5, 3, "note"), OffsetToCommit(A1, 6, metadata=None))
    for shard in (harness.shard, harness.reloaded().shard):
        first, second = (shard.offsets.of_group(GROUP)[partition] for partition in (A0, A1))
        assert (first.offset, first.leader_epoch, first.metadata) == (5, 3, "note")
        assert (second.leader_epoch, second.metadata) == (-1, "")
    assert {record.version for record in harness.journal.records if record.number == OFFSET} == {4}


def test_metadata_that_is_too_long_is_refused_for_its_partition_alone() -> None:
    harness = ShardHarness(offset_metadata_max_bytes=4)
    replies = Replies()
    harness.shard.commits.commit(claim(), [OffsetToCommit(A0, 1, metadata="12345"), OffsetToCommit(A1, 2)], replies)
    assert replies.one == {A0: ErrorCode.OFFSET_METADATA_TOO_LARGE, A1: ErrorCode.NONE}
    assert (offset(harness, A0), offset(harness, A1)) == (None, 2)


def test_nobody_hears_of_a_commit_before_it_is_replicated_nor_of_one_that_failed() -> None:
    harness = ShardHarness()
    replies = Replies()
    harness.journal.holds = True
    harness.shard.commits.commit(claim(), [OffsetToCommit(A0, 1)], replies)
    assert not replies
    harness.journal.release()
    assert replies.one == {A0: ErrorCode.NONE}
    harness.journal.error = ErrorCode.NOT_COORDINATOR
    assert commit(harness, claim(), OffsetToCommit(A0, 9)) is ErrorCode.NOT_COORDINATOR
    assert offset(harness) == 1


# --- transactions ---


def test_pending_offsets_count_with_the_marker_that_commits() -> None:
    harness = ShardHarness()
    commit(harness, claim(), OffsetToCommit(A0, 1))
    commit_in_transaction(harness, 7, OffsetToCommit(A0, 10), OffsetToCommit(A1, 11))
    assert (offset(harness, A0), offset(harness, A1)) == (1, None)
    assert harness.shard.offsets.has_pending(GROUP, A1)
    assert harness.reloaded().shard.offsets.has_pending(GROUP, A1)
    harness.end_transaction(7, is_commit=True)
    for shard in (harness, harness.reloaded()):
        assert (offset(shard, A0), offset(shard, A1)) == (10, 11)
        assert not shard.shard.offsets.has_pending(GROUP)


def test_pending_offsets_go_with_the_marker_that_aborts() -> None:
    harness = ShardHarness()
    commit_in_transaction(harness, 7, OffsetToCommit(A0, 10))
    commit_in_transaction(harness, 8, OffsetToCommit(A0, 20))
    harness.end_transaction(7, is_commit=False)
    assert harness.shard.offsets.has_pending(GROUP, A0), "the other's is still there"
    harness.end_transaction(8, is_commit=True)
    assert offset(harness) == 20


def test_of_two_offsets_the_one_further_on_in_the_log_counts() -> None:
    harness = ShardHarness()
    commit_in_transaction(harness, 7, OffsetToCommit(A0, 10))
    commit(harness, claim(), OffsetToCommit(A0, 5))
    harness.end_transaction(7, is_commit=True)
    assert offset(harness) == 5
    assert offset(harness.reloaded()) == 5


# --- deletion ---


def delete(harness: ShardHarness, *partitions: TopicPartition) -> Any:
    replies = Replies()
    try:
        harness.shard.commits.delete(GROUP, partitions, replies)
    except ApiError as error:
        return error.code
    return replies.one


def test_offsets_of_topics_that_are_read_cannot_be_deleted() -> None:
    harness = ShardHarness(MemoryTopics(a=1, b=1))
    settle(Consumer(harness, "m1", topic_names=frozenset({"a"})))
    commit(harness, claim("m1", 2), OffsetToCommit(A0, 1), OffsetToCommit(B0, 2))
    assert delete(harness, A0, B0) == {A0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, B0: ErrorCode.NONE}
    assert (offset(harness, A0), offset(harness, B0)) == (1, None)
    assert offset(harness.reloaded(), B0) is None


def test_a_group_of_others_than_consumers_keeps_its_offsets() -> None:
    harness = ShardHarness()
    (member,) = harness.stable(protocol_type="connect")
    assert delete(harness, A0) is ErrorCode.NON_EMPTY_GROUP
    harness.leave(Leaver(member))
    assert delete(harness, A0) == {A0: ErrorCode.NONE}


def test_deleting_an_offset_deletes_pending_ones_with_it() -> None:
    harness = ShardHarness()
    commit_in_transaction(harness, 7, OffsetToCommit(A0, 10))
    assert delete(harness, A0) == {A0: ErrorCode.NONE}
    harness.end_transaction(7, is_commit=True)
    assert offset(harness) is None


def test_groups_are_deleted_with_their_offsets_where_nobody_is_in_them() -> None:
    harness = ShardHarness()
    (member,) = harness.stable()
    commit(harness, claim(member, 1))
    replies = Replies()
    harness.shard.delete_groups([GROUP, "other"], replies)
    assert replies.one == {GROUP: ErrorCode.NON_EMPTY_GROUP, "other": ErrorCode.GROUP_ID_NOT_FOUND}
    harness.leave(Leaver(member))
    replies = Replies()
    harness.shard.delete_groups([GROUP], replies)
    assert replies.one == {GROUP: ErrorCode.NONE}
    for shard in (harness.shard, harness.reloaded().shard):
        assert not shard.groups
        assert not shard.offsets.of_group(GROUP)


@pytest.mark.parametrize("topics", [MemoryTopics(), MemoryTopics(a=2)], ids=["without topic ids", "with topic ids"])
def test_offsets_of_deleted_topics_go(topics: MemoryTopics) -> None:
    harness = ShardHarness(topics)
    commit(harness, claim(), OffsetToCommit(A0, 1), OffsetToCommit(B0, 2))
    commit_in_transaction(harness, 7, OffsetToCommit(A1, 3))
    harness.shard.delete_offsets_of_topics({"a": MemoryTopics().make("a", 2)})
    assert dict(harness.reloaded().shard.offsets.of_group(GROUP)).keys() == {B0}
    assert not harness.shard.offsets.has_pending(GROUP)


def test_offsets_of_another_topic_of_the_same_name_stay() -> None:
    """The group committed to the new topic before the old topic's offsets were removed."""
    harness = ShardHarness(MemoryTopics(a=2))
    commit(harness, claim(), OffsetToCommit(A0, 1))
    commit_in_transaction(harness, 7, OffsetToCommit(A1, 3))
    harness.shard.delete_offsets_of_topics({"a": uuid.uuid4()})
    assert dict(harness.reloaded().shard.offsets.of_group(GROUP)).keys() == {A0}
    assert harness.shard.offsets.has_pending(GROUP)


# --- expiry ---


def expiring() -> ShardHarness:
    harness = ShardHarness(MemoryTopics(a=2, b=1), offsets_retention_minutes=60, retention_check_interval_ms=MINUTE)
    harness.shard.resume()
    return harness


def test_offsets_without_a_group_expire_an_hour_after_their_commit_and_the_group_with_them() -> None:
    harness = expiring()
    commit(harness, claim(), OffsetToCommit(A0, 1))
    harness.wait(30 * MINUTE)
    commit(harness, claim(), OffsetToCommit(A1, 2))
    harness.wait(30 * MINUTE)
    assert (offset(harness, A0), offset(harness, A1)) == (None, 2)
    harness.wait(30 * MINUTE)
    for shard in (harness.shard, harness.reloaded().shard):
        assert not shard.groups


def test_offsets_of_an_empty_group_expire_an_hour_after_it_became_empty() -> None:
    harness = expiring()
    (member,) = harness.stable()
    commit(harness, claim(member, 1), OffsetToCommit(A0, 1))
    for _ in range(100):
        harness.wait(MINUTE // 10)
        harness.heartbeat(member, 1)
    harness.leave(Leaver(member))
    harness.wait(55 * MINUTE)
    assert offset(harness) == 1
    harness.wait(6 * MINUTE)
    assert not harness.shard.groups


@pytest.mark.parametrize(("topics", "kept"), [(("a",), {A0}), ((), set())])
def test_offsets_of_topics_that_are_read_do_not_expire(topics: tuple[str, ...], kept: set[TopicPartition]) -> None:
    harness = expiring()
    one = Consumer(harness, "m1", topic_names=frozenset(topics))
    settle(one)
    commit(harness, claim("m1", one.epoch), OffsetToCommit(A0, 1), OffsetToCommit(B0, 2))
    for _ in range(61 * 2):
        harness.wait(MINUTE // 2)
        one.beat()
    assert dict(harness.shard.offsets.of_group(GROUP)).keys() == kept


def test_a_stable_classic_group_of_consumers_is_known_by_what_its_members_read() -> None:
    harness = expiring()
    (member,) = harness.stable(protocols=(Protocol("range", subscription("a")),), session_timeout_ms=120_000)
    harness.sync(member, 1, assignments={member: write_assignment({"a": [0]}, 0)})
    commit(harness, claim(member, 1), OffsetToCommit(A0, 1), OffsetToCommit(B0, 2))
    for _ in range(62):
        harness.wait(MINUTE)
        assert harness.heartbeat(member, 1) is ErrorCode.NONE
    assert dict(harness.shard.offsets.of_group(GROUP)).keys() == {A0}


def test_an_offset_that_says_when_it_expires_goes_then() -> None:
    harness = expiring()
    commit(harness, claim(version=4), OffsetToCommit(A0, 1), retention_ms=5 * MINUTE)
    assert harness.journal.records[-1].version == 1
    harness = harness.reloaded(offsets_retention_minutes=60, retention_check_interval_ms=MINUTE)
    harness.wait(5 * MINUTE)
    assert offset(harness) is None


def test_offsets_that_a_transaction_may_change_do_not_expire() -> None:
    harness = expiring()
    commit(harness, claim(), OffsetToCommit(A0, 1))
    commit_in_transaction(harness, 7, OffsetToCommit(A0, 2))
    harness.wait(2 * HOUR)
    assert offset(harness) == 1
    harness.end_transaction(7, is_commit=False)
    harness.wait(MINUTE)
    assert not harness.shard.groups
