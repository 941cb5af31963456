"""Share and streams groups that Kafka left in the log keep their ids, members and offsets."""

from __future__ import annotations

from typing import Any

import pytest

from server.groups.shard_harness import GROUP, MemoryTopics, Replies, ShardHarness, call_replying
from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.committed_offset import OffsetAndMetadata, offset_commit
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.server.groups.classic.member_requests import MemberClaim
from tidelog.server.groups.offsets.commit_rules import CommitClaim, check_fetch
from tidelog.server.groups.offsets.commits import OffsetToCommit
from tidelog.server.groups.state.unserved_group import UnservedGroup

PLACE = TopicPartition("t", 0)
_GROUP_KEY: dict[str, Any] = {"groupId": GROUP}
_MEMBER_KEY = {**_GROUP_KEY, "memberId": "m"}
_MEMBER: dict[str, Any] = {"rackId": None, "clientId": "c", "clientHost": "h", "subscribedTopicNames": ["t"]}
_STREAMS_MEMBER: dict[str, Any] = {
    "instanceId": None,
    "rackId": None,
    "clientId": "c",
    "clientHost": "h",
    "rebalanceTimeoutMs": 1,
    "topologyEpoch": 0,
    "processId": "p",
    "userEndpoint": None,
    "clientTags": [],
}
_SHARE = [
    GroupRecord(10, _MEMBER_KEY, _MEMBER),
    GroupRecord(11, _GROUP_KEY, {"epoch": 1, "metadataHash": 0}),
    GroupRecord(12, _GROUP_KEY, {"assignmentEpoch": 1}),
]
_STREAMS = [
    GroupRecord(19, _MEMBER_KEY, _STREAMS_MEMBER),
    GroupRecord(17, _GROUP_KEY, {"epoch": 1, "metadataHash": 0}),
    GroupRecord(20, _GROUP_KEY, {"assignmentEpoch": 0}),
]
_NO_SHARE_MEMBER = GroupRecord(10, _MEMBER_KEY, None)
_NO_STREAMS_MEMBER = GroupRecord(19, _MEMBER_KEY, None)
_OFFSET = offset_commit(GROUP, PLACE, OffsetAndMetadata(offset=5, commit_ms=0))


def rig_of(*records: GroupRecord) -> ShardHarness:
    """Return a shard that has loaded these records."""
    harness = ShardHarness(MemoryTopics(t=1), offsets_retention_minutes=60)
    harness.journal.write(records, lambda _error: None)
    return harness.reloaded(offsets_retention_minutes=60)


def found(harness: ShardHarness) -> UnservedGroup:
    group = harness.shard.groups.find(GROUP)
    assert isinstance(group, UnservedGroup)
    return group


def commit(harness: ShardHarness) -> ErrorCode:
    """Commit an offset without a generation and return the error."""
    member = MemberClaim(group_id=GROUP, member_id="", instance_id=None, generation_id=-1)
    replies = Replies()
    claim = CommitClaim(member=member, version=9)
    call_replying(replies, lambda: harness.shard.commits.commit(claim, [OffsetToCommit(PLACE, 7)], replies))
    return ErrorCode(replies.one.get(PLACE, replies.one.get("error_code")))


def delete(harness: ShardHarness) -> ErrorCode:
    replies = Replies()
    harness.shard.delete_groups([GROUP], replies)
    return ErrorCode(replies.one[GROUP])


@pytest.mark.parametrize(
    ("records", "type_", "state"),
    [
        (_SHARE, "share", "Stable"),
        ([*_SHARE, _NO_SHARE_MEMBER], "share", "Empty"),
        (_STREAMS, "streams", "Assigning"),
        ([*_STREAMS, GroupRecord(20, _GROUP_KEY, {"assignmentEpoch": 1})], "streams", "Stable"),
        ([*_STREAMS, _NO_STREAMS_MEMBER], "streams", "Empty"),
        ([_OFFSET, *_STREAMS], "streams", "Assigning"),
        ([*_STREAMS, _OFFSET], "streams", "Assigning"),
    ],
)
def test_a_group_is_what_its_records_say(records: list[GroupRecord], type_: str, state: str) -> None:
    harness = rig_of(*records)
    assert (found(harness).type, found(harness).state) == (type_, state)
    deleted = rig_of(*records, *found(harness).tombstones())
    assert GROUP not in deleted.shard.groups


@pytest.mark.parametrize("records", [_SHARE, [*_SHARE, _NO_SHARE_MEMBER], _STREAMS], ids=["share", "empty", "streams"])
def test_no_other_protocol_takes_the_id(records: list[GroupRecord]) -> None:
    harness = rig_of(*records)
    written = len(harness.journal.lines)
    assert harness.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.beat("m", 0).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert harness.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    refused = ErrorCode.UNKNOWN_MEMBER_ID if records is _STREAMS else ErrorCode.GROUP_ID_NOT_FOUND
    assert commit(harness) is refused
    assert delete(harness) in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_DELETION_FAILED)
    assert len(harness.journal.lines) == written


@pytest.mark.parametrize(("member_id", "epoch", "is_refused"), [(None, -1, False), ("m", -1, True), (None, 0, True)])
def test_no_member_of_a_streams_group_fetches_offsets(member_id: str | None, epoch: int, is_refused: bool) -> None:
    """A share group has no offsets, and any fetch of them is empty."""
    check_fetch(found(rig_of(*_SHARE)), member_id, epoch)
    error = ErrorCode.NONE
    try:
        check_fetch(found(rig_of(*_STREAMS)), member_id, epoch)
    except ApiError as refusal:
        error = refusal.code
    assert error is (ErrorCode.UNKNOWN_MEMBER_ID if is_refused else ErrorCode.NONE)


def test_an_empty_streams_group_becomes_a_classic_group() -> None:
    harness = rig_of(*_STREAMS, _NO_STREAMS_MEMBER)
    harness.stable()
    assert harness.reloaded().classic.members
    assert [record.number for record in harness.journal.records if record.value is None] == [19, 20, 17]


def test_an_empty_streams_group_is_deleted_with_its_offsets() -> None:
    harness = rig_of(*_STREAMS, _NO_STREAMS_MEMBER)
    assert commit(harness) is ErrorCode.NONE
    assert delete(harness) is ErrorCode.NONE
    assert not harness.reloaded().shard.groups
    assert harness.shard.offsets.count == 0


def test_offsets_of_a_streams_group_expire_once_it_has_no_members() -> None:
    with_members, without = rig_of(*_STREAMS, _OFFSET), rig_of(*_STREAMS, _NO_STREAMS_MEMBER, _OFFSET)
    for harness in (with_members, without):
        harness.shard.expire()
    assert (with_members.shard.offsets.count, without.shard.offsets.count) == (1, 0)
    assert GROUP in with_members.shard.groups
    assert GROUP not in without.shard.groups
