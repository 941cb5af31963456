"""Share and streams groups that Kafka left in the log keep their ids, members and offsets."""

from __future__ import annotations

from typing import Any

import pytest

from server.groups.rig import GROUP, Answers, MemoryTopics, Rig, tell
from tidelog.model import TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.classic.syncing import MemberClaim
from tidelog.server.groups.log.group_record import GroupRecord
from tidelog.server.groups.log.offset_records import offset_commit
from tidelog.server.groups.offsets.commit_rules import CommitClaim
from tidelog.server.groups.offsets.commits import OffsetToCommit
from tidelog.server.groups.offsets.offset_store import CommittedOffset
from tidelog.server.groups.unserved_group import UnservedGroup

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
_OFFSET = offset_commit(GROUP, PLACE, CommittedOffset(offset=5, commit_ms=0))


def rig_of(*records: GroupRecord) -> Rig:
    """Return a shard that has loaded these records."""
    rig = Rig(MemoryTopics(t=1), offsets_retention_minutes=60)
    rig.journal.write(records, lambda _error: None)
    return rig.reloaded(offsets_retention_minutes=60)


def found(rig: Rig) -> UnservedGroup:
    group = rig.shard.groups.find(GROUP)
    assert isinstance(group, UnservedGroup)
    return group


def commit(rig: Rig) -> ErrorCode:
    """Commit an offset without a generation and return the error."""
    member = MemberClaim(group_id=GROUP, member_id="", instance_id=None, generation_id=-1)
    answers = Answers()
    claim = CommitClaim(member=member, version=9)
    tell(answers, lambda: rig.shard.commits.commit(claim, [OffsetToCommit(PLACE, 7)], answers))
    return ErrorCode(answers.one.get(PLACE, answers.one.get("error_code")))


def delete(rig: Rig) -> ErrorCode:
    answers = Answers()
    rig.shard.delete_groups([GROUP], answers)
    return ErrorCode(answers.one[GROUP])


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
    rig = rig_of(*records)
    assert (found(rig).type, found(rig).state) == (type_, state)
    deleted = rig_of(*records, *found(rig).tombstones())
    assert GROUP not in deleted.shard.groups


@pytest.mark.parametrize("records", [_SHARE, [*_SHARE, _NO_SHARE_MEMBER], _STREAMS], ids=["share", "empty", "streams"])
def test_no_other_protocol_takes_the_id(records: list[GroupRecord]) -> None:
    rig = rig_of(*records)
    written = len(rig.journal.lines)
    assert rig.join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert rig.beat("m", 0).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    refused = ErrorCode.UNKNOWN_MEMBER_ID if records is _STREAMS else ErrorCode.GROUP_ID_NOT_FOUND
    assert commit(rig) is refused
    assert delete(rig) in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_DELETION_FAILED)
    assert len(rig.journal.lines) == written


def test_an_empty_streams_group_becomes_a_classic_group() -> None:
    rig = rig_of(*_STREAMS, _NO_STREAMS_MEMBER)
    rig.stable()
    assert rig.reloaded().classic.members
    assert [record.number for record in rig.journal.records if record.value is None] == [19, 20, 17]


def test_an_empty_streams_group_is_deleted_with_its_offsets() -> None:
    rig = rig_of(*_STREAMS, _NO_STREAMS_MEMBER)
    assert commit(rig) is ErrorCode.NONE
    assert delete(rig) is ErrorCode.NONE
    assert not rig.reloaded().shard.groups
    assert rig.shard.offsets.count == 0


def test_offsets_of_a_streams_group_expire_once_it_has_no_members() -> None:
    with_members, without = rig_of(*_STREAMS, _OFFSET), rig_of(*_STREAMS, _NO_STREAMS_MEMBER, _OFFSET)
    for rig in (with_members, without):
        rig.shard.expire()
    assert (with_members.shard.offsets.count, without.shard.offsets.count) == (1, 0)
    assert GROUP in with_members.shard.groups
    assert GROUP not in without.shard.groups
