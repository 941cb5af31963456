"""Committed offsets: membership checks, transactions, metadata, deletion and expiry."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from server.groups.rig import GROUP, Answers, Consumer, MemoryTopics, Rig, settle, tell
from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.groups.classic.classic_member import Protocol
from tidelog.server.groups.classic.consumer_protocol import write_assignment
from tidelog.server.groups.classic.leaving import Leaver
from tidelog.server.groups.classic.syncing import MemberClaim
from tidelog.server.groups.journal import TransactionalProducer
from tidelog.server.groups.log.offset_records import OFFSET
from tidelog.server.groups.offsets.commit_rules import CommitClaim, check_fetch
from tidelog.server.groups.offsets.commits import OffsetToCommit

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
MINUTE = 60_000
HOUR = 60 * MINUTE


def claim(member_id: str = "", generation_id: int = -1, instance_id: str | None = None, **fields: Any) -> CommitClaim:
    member = MemberClaim(group_id=GROUP, member_id=member_id, generation_id=generation_id, instance_id=instance_id)
    return CommitClaim(member=member, **{"version": 9, **fields})


def commit(rig: Rig, said: CommitClaim, *offsets: OffsetToCommit, **fields: Any) -> ErrorCode:
    """Return the error of the whole commit, or of its first partition."""
    offsets = offsets or (OffsetToCommit(A0, 5),)
    answers = Answers()
    try:
        rig.shard.commits.commit(said, offsets, answers, **fields)
    except ApiError as error:
        return error.code
    return ErrorCode(answers.one[offsets[0].partition])


def commit_in_transaction(rig: Rig, producer_id: int, *offsets: OffsetToCommit, **fields: Any) -> ErrorCode:
    answers = Answers()
    producer = TransactionalProducer(producer_id=producer_id, producer_epoch=0)
    try:
        rig.shard.commits.commit_transactional(claim(is_transactional=True, **fields), producer, offsets, answers)
    except ApiError as error:
        return error.code
    return ErrorCode(answers.one[offsets[0].partition])


def offset(rig: Rig, partition: TopicPartition = A0) -> int | None:
    committed = rig.shard.offsets.of_group(GROUP).get(partition)
    return None if committed is None else committed.offset


def subscription(*topics: str) -> bytes:
    """Return a consumer's subscription, version 0."""
    text = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + text + b"\xff\xff\xff\xff"


# --- membership ---


def test_an_offset_of_no_group_makes_one_that_has_only_offsets() -> None:
    rig = Rig()
    assert commit(rig, claim()) is ErrorCode.NONE
    assert rig.classic.is_simple
    assert offset(rig.reloaded()) == 5


@pytest.mark.parametrize(("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_no_group(version: int, error: ErrorCode) -> None:
    assert commit(Rig(), claim("m", 3, version=version)) is error


@pytest.mark.parametrize(("member_id", "generation", "instance_id", "error"), [
    ("", -1, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ("who", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
    ("MEMBER", 2, None, ErrorCode.ILLEGAL_GENERATION),
    ("MEMBER", 1, "i", ErrorCode.UNKNOWN_MEMBER_ID),
    ("MEMBER", 1, None, ErrorCode.NONE),
])  # fmt: skip
def test_commits_to_a_classic_group(member_id: str, generation: int, instance_id: str | None, error: ErrorCode) -> None:
    rig = Rig()
    (member,) = rig.stable()
    assert commit(rig, claim(member_id.replace("MEMBER", member), generation, instance_id)) is error


def test_a_commit_while_the_leader_assigns_has_to_wait() -> None:
    rig = Rig()
    answers = rig.join()
    rig.wait(3000)
    member = answers.one["member_id"]
    assert commit(rig, claim(member, 1)) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit_in_transaction(rig, 7, OffsetToCommit(A0, 1)) is ErrorCode.NONE


def test_a_commit_is_a_heartbeat() -> None:
    rig = Rig()
    (member,) = rig.stable()
    for _ in range(4):
        rig.wait(9_000)
        assert commit(rig, claim(member, 1)) is ErrorCode.NONE
    assert member in rig.classic.members


@pytest.mark.parametrize(("member_id", "epoch", "fields", "error"), [
    ("m1", 2, {}, ErrorCode.NONE),
    ("m1", 1, {}, ErrorCode.STALE_MEMBER_EPOCH),
    ("m1", 3, {}, ErrorCode.STALE_MEMBER_EPOCH),
    ("m1", 1, {"version": 8}, ErrorCode.UNSUPPORTED_VERSION),
    ("who", 1, {}, ErrorCode.UNKNOWN_MEMBER_ID),
    ("", -1, {}, ErrorCode.UNKNOWN_MEMBER_ID),
])  # fmt: skip
def test_commits_to_a_consumer_group(member_id: str, epoch: int, fields: dict[str, Any], error: ErrorCode) -> None:
    rig = Rig(MemoryTopics(a=1))
    rig.beat("m1", 0)
    assert commit(rig, claim(member_id, epoch, **fields)) is error


@pytest.mark.parametrize(("epoch", "partition", "error"), [
    (2, 0, ErrorCode.NONE),
    (2, 1, ErrorCode.STALE_MEMBER_EPOCH),
    (1, 0, ErrorCode.STALE_MEMBER_EPOCH),
    (3, 1, ErrorCode.NONE),
])  # fmt: skip
def test_an_older_epoch_commits_what_the_member_had_in_it(epoch: int, partition: int, error: ErrorCode) -> None:
    """KIP-1251: the member keeps one partition, and another member receives the other one."""
    rig = Rig(MemoryTopics(a=2))
    one, two = Consumer(rig, "m1"), Consumer(rig, "m2")
    one.beat()
    settle(one, two)
    assert (one.epoch, one.partitions, two.partitions) == (3, {("a", 0)}, {("a", 1)})
    offset = OffsetToCommit(TopicPartition("a", partition), 5)
    assert commit(rig, claim("m1", epoch), offset) is error


def test_transactions_commit_to_consumer_groups_with_or_without_a_member() -> None:
    rig = Rig(MemoryTopics(a=1))
    rig.beat("m1", 0)
    assert commit_in_transaction(rig, 7, OffsetToCommit(A0, 1)) is ErrorCode.NONE
    producer, answers = TransactionalProducer(producer_id=7, producer_epoch=0), Answers()
    with pytest.raises(ApiError) as raised:
        rig.shard.commits.commit_transactional(claim("m1", 9, is_transactional=True), producer, [], answers)
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
    rig = Rig(MemoryTopics(a=1))
    rig.beat("m1", 0)
    answers = Answers()
    tell(answers, lambda: check_fetch(rig.consumer, member_id, epoch))
    assert [answer["error_code"] for answer in answers] == ([] if error is None else [error])


# --- stored offsets ---


def test_what_a_commit_says_is_kept() -> None:
    rig = Rig()
    commit(rig, claim(), OffsetToCommit(A0, 5, 3, "note"), OffsetToCommit(A1, 6, metadata=None))
    for shard in (rig.shard, rig.reloaded().shard):
        first, second = (shard.offsets.of_group(GROUP)[partition] for partition in (A0, A1))
        assert (first.offset, first.leader_epoch, first.metadata) == (5, 3, "note")
        assert (second.leader_epoch, second.metadata) == (-1, "")
    assert {record.version for record in rig.journal.records if record.number == OFFSET} == {4}


def test_metadata_that_is_too_long_is_refused_for_its_partition_alone() -> None:
    rig = Rig(offset_metadata_max_bytes=4)
    answers = Answers()
    rig.shard.commits.commit(claim(), [OffsetToCommit(A0, 1, metadata="12345"), OffsetToCommit(A1, 2)], answers)
    assert answers.one == {A0: ErrorCode.OFFSET_METADATA_TOO_LARGE, A1: ErrorCode.NONE}
    assert (offset(rig, A0), offset(rig, A1)) == (None, 2)


def test_nobody_hears_of_a_commit_before_it_is_replicated_nor_of_one_that_failed() -> None:
    rig = Rig()
    answers = Answers()
    rig.journal.holds = True
    rig.shard.commits.commit(claim(), [OffsetToCommit(A0, 1)], answers)
    assert not answers
    rig.journal.release()
    assert answers.one == {A0: ErrorCode.NONE}
    rig.journal.error = ErrorCode.NOT_COORDINATOR
    assert commit(rig, claim(), OffsetToCommit(A0, 9)) is ErrorCode.NOT_COORDINATOR
    assert offset(rig) == 1


# --- transactions ---


def test_pending_offsets_count_with_the_marker_that_commits() -> None:
    rig = Rig()
    commit(rig, claim(), OffsetToCommit(A0, 1))
    commit_in_transaction(rig, 7, OffsetToCommit(A0, 10), OffsetToCommit(A1, 11))
    assert (offset(rig, A0), offset(rig, A1)) == (1, None)
    assert rig.shard.offsets.has_pending(GROUP, A1)
    assert rig.reloaded().shard.offsets.has_pending(GROUP, A1)
    rig.end_transaction(7, is_commit=True)
    for shard in (rig, rig.reloaded()):
        assert (offset(shard, A0), offset(shard, A1)) == (10, 11)
        assert not shard.shard.offsets.has_pending(GROUP)


def test_pending_offsets_go_with_the_marker_that_aborts() -> None:
    rig = Rig()
    commit_in_transaction(rig, 7, OffsetToCommit(A0, 10))
    commit_in_transaction(rig, 8, OffsetToCommit(A0, 20))
    rig.end_transaction(7, is_commit=False)
    assert rig.shard.offsets.has_pending(GROUP, A0), "the other's is still there"
    rig.end_transaction(8, is_commit=True)
    assert offset(rig) == 20


def test_of_two_offsets_the_one_further_on_in_the_log_counts() -> None:
    rig = Rig()
    commit_in_transaction(rig, 7, OffsetToCommit(A0, 10))
    commit(rig, claim(), OffsetToCommit(A0, 5))
    rig.end_transaction(7, is_commit=True)
    assert offset(rig) == 5
    assert offset(rig.reloaded()) == 5


# --- deletion ---


def delete(rig: Rig, *partitions: TopicPartition) -> Any:
    answers = Answers()
    try:
        rig.shard.commits.delete(GROUP, partitions, answers)
    except ApiError as error:
        return error.code
    return answers.one


def test_offsets_of_topics_that_are_read_cannot_be_deleted() -> None:
    rig = Rig(MemoryTopics(a=1, b=1))
    settle(Consumer(rig, "m1", topic_names=frozenset({"a"})))
    commit(rig, claim("m1", 2), OffsetToCommit(A0, 1), OffsetToCommit(B0, 2))
    assert delete(rig, A0, B0) == {A0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, B0: ErrorCode.NONE}
    assert (offset(rig, A0), offset(rig, B0)) == (1, None)
    assert offset(rig.reloaded(), B0) is None


def test_a_group_of_others_than_consumers_keeps_its_offsets() -> None:
    rig = Rig()
    (member,) = rig.stable(protocol_type="connect")
    assert delete(rig, A0) is ErrorCode.NON_EMPTY_GROUP
    rig.leave(Leaver(member))
    assert delete(rig, A0) == {A0: ErrorCode.NONE}


def test_deleting_an_offset_deletes_pending_ones_with_it() -> None:
    rig = Rig()
    commit_in_transaction(rig, 7, OffsetToCommit(A0, 10))
    assert delete(rig, A0) == {A0: ErrorCode.NONE}
    rig.end_transaction(7, is_commit=True)
    assert offset(rig) is None


def test_groups_are_deleted_with_their_offsets_where_nobody_is_in_them() -> None:
    rig = Rig()
    (member,) = rig.stable()
    commit(rig, claim(member, 1))
    answers = Answers()
    rig.shard.delete_groups([GROUP, "other"], answers)
    assert answers.one == {GROUP: ErrorCode.NON_EMPTY_GROUP, "other": ErrorCode.GROUP_ID_NOT_FOUND}
    rig.leave(Leaver(member))
    answers = Answers()
    rig.shard.delete_groups([GROUP], answers)
    assert answers.one == {GROUP: ErrorCode.NONE}
    for shard in (rig.shard, rig.reloaded().shard):
        assert not shard.groups
        assert not shard.offsets.of_group(GROUP)


@pytest.mark.parametrize("topics", [MemoryTopics(), MemoryTopics(a=2)], ids=["without topic ids", "with topic ids"])
def test_offsets_of_deleted_topics_go(topics: MemoryTopics) -> None:
    rig = Rig(topics)
    commit(rig, claim(), OffsetToCommit(A0, 1), OffsetToCommit(B0, 2))
    commit_in_transaction(rig, 7, OffsetToCommit(A1, 3))
    rig.shard.forget_topics({"a": MemoryTopics().make("a", 2)})
    assert dict(rig.reloaded().shard.offsets.of_group(GROUP)).keys() == {B0}
    assert not rig.shard.offsets.has_pending(GROUP)


def test_offsets_of_another_topic_of_the_same_name_stay() -> None:
    """The topic was deleted and created again. The group committed to the new topic before the old topic's offsets were
    removed."""
    rig = Rig(MemoryTopics(a=2))
    commit(rig, claim(), OffsetToCommit(A0, 1))
    commit_in_transaction(rig, 7, OffsetToCommit(A1, 3))
    rig.shard.forget_topics({"a": uuid.uuid4()})
    assert dict(rig.reloaded().shard.offsets.of_group(GROUP)).keys() == {A0}
    assert rig.shard.offsets.has_pending(GROUP)


# --- expiry ---


def expiring() -> Rig:
    rig = Rig(MemoryTopics(a=2, b=1), offsets_retention_minutes=60, retention_check_interval_ms=MINUTE)
    rig.shard.resume()
    return rig


def test_offsets_without_a_group_expire_an_hour_after_their_commit_and_the_group_with_them() -> None:
    rig = expiring()
    commit(rig, claim(), OffsetToCommit(A0, 1))
    rig.wait(30 * MINUTE)
    commit(rig, claim(), OffsetToCommit(A1, 2))
    rig.wait(30 * MINUTE)
    assert (offset(rig, A0), offset(rig, A1)) == (None, 2)
    rig.wait(30 * MINUTE)
    for shard in (rig.shard, rig.reloaded().shard):
        assert not shard.groups


def test_offsets_of_an_empty_group_expire_an_hour_after_it_became_empty() -> None:
    rig = expiring()
    (member,) = rig.stable()
    commit(rig, claim(member, 1), OffsetToCommit(A0, 1))
    for _ in range(100):
        rig.wait(MINUTE // 10)
        rig.heartbeat(member, 1)
    rig.leave(Leaver(member))
    rig.wait(55 * MINUTE)
    assert offset(rig) == 1
    rig.wait(6 * MINUTE)
    assert not rig.shard.groups


@pytest.mark.parametrize(("topics", "kept"), [(("a",), {A0}), ((), set())])
def test_offsets_of_topics_that_are_read_do_not_expire(topics: tuple[str, ...], kept: set[TopicPartition]) -> None:
    rig = expiring()
    one = Consumer(rig, "m1", topic_names=frozenset(topics))
    settle(one)
    commit(rig, claim("m1", one.epoch), OffsetToCommit(A0, 1), OffsetToCommit(B0, 2))
    for _ in range(61 * 2):
        rig.wait(MINUTE // 2)
        one.beat()
    assert dict(rig.shard.offsets.of_group(GROUP)).keys() == kept


def test_a_stable_classic_group_of_consumers_is_known_by_what_its_members_read() -> None:
    rig = expiring()
    (member,) = rig.stable(protocols=(Protocol("range", subscription("a")),), session_timeout_ms=120_000)
    rig.sync(member, 1, assignments={member: write_assignment({"a": [0]}, 0)})
    commit(rig, claim(member, 1), OffsetToCommit(A0, 1), OffsetToCommit(B0, 2))
    for _ in range(62):
        rig.wait(MINUTE)
        assert rig.heartbeat(member, 1) is ErrorCode.NONE
    assert dict(rig.shard.offsets.of_group(GROUP)).keys() == {A0}


def test_an_offset_that_says_when_it_expires_goes_then() -> None:
    rig = expiring()
    commit(rig, claim(version=4), OffsetToCommit(A0, 1), retention_ms=5 * MINUTE)
    assert rig.journal.records[-1].version == 1
    rig = rig.reloaded(offsets_retention_minutes=60, retention_check_interval_ms=MINUTE)
    rig.wait(5 * MINUTE)
    assert offset(rig) is None


def test_offsets_that_a_transaction_may_change_do_not_expire() -> None:
    rig = expiring()
    commit(rig, claim(), OffsetToCommit(A0, 1))
    commit_in_transaction(rig, 7, OffsetToCommit(A0, 2))
    rig.wait(2 * HOUR)
    assert offset(rig) == 1
    rig.end_transaction(7, is_commit=False)
    rig.wait(MINUTE)
    assert not rig.shard.groups
