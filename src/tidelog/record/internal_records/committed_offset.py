"""The record of a committed offset, ``OffsetCommit`` (type 1), in all its versions. Pure.

===========  ==================================================================================================
version      content
===========  ==================================================================================================
0 (type 0)   offset, metadata, commit time: written by brokers before 0.9
1            also the expiry time: written for commits that set one
2, 3         no expiry time; version 3 adds the leader epoch
4            also the topic id: written for all other commits
===========  ==================================================================================================

Source: Kafka's ``GroupCoordinatorRecordHelpers.newOffsetCommitRecord``, ``OffsetAndMetadata.fromRecord``.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Final

from tidelog.model import TopicPartition
from tidelog.model.kafka_uuid import uuid_from_text, uuid_to_text
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.record.internal_records.schema import ZERO_UUID

_LEGACY_OFFSET: Final = 0
OFFSET: Final = 1
OFFSETS: Final = frozenset({_LEGACY_OFFSET, OFFSET})
"""The record types of committed offsets."""
_WITH_EXPIRY = 1
_VERSION = 4
_NO_TIME = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """``leader_epoch`` is -1 if the commit had none. ``record_offset`` is the record's offset in the log."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = -1
    expire_ms: int | None = None
    """The expiry time, which commits before v5 of the API could set."""
    record_offset: int = -1
    topic_id: uuid.UUID | None = None
    """The id of the topic at the commit, or None in records of Kafka 4.1 and before."""


def offset_commit(group_id: str, partition: TopicPartition, committed: OffsetAndMetadata) -> GroupRecord:
    value: dict[str, Any] = {
        "offset": committed.offset,
        "metadata": committed.metadata,
        "commitTimestamp": committed.commit_ms,
    }
    if committed.expire_ms is not None:
        value["expireTimestamp"] = committed.expire_ms
        return GroupRecord(OFFSET, _key(group_id, partition), value, _WITH_EXPIRY)
    value["leaderEpoch"] = committed.leader_epoch
    if committed.topic_id is not None:
        value["topicId"] = uuid_to_text(committed.topic_id)
    return GroupRecord(OFFSET, _key(group_id, partition), value, _VERSION)


def offset_tombstone(group_id: str, partition: TopicPartition) -> GroupRecord:
    return GroupRecord(OFFSET, _key(group_id, partition), None)


def offset_place(record: GroupRecord) -> tuple[str, TopicPartition]:
    """Return the group and the partition of an offset's record."""
    return record.key["group"], TopicPartition(record.key["topic"], record.key["partition"])


def read_offset(record: GroupRecord, record_offset: int) -> OffsetAndMetadata:
    """Return the offset in a record that has a value."""
    assert record.value is not None, record
    value = record.value
    expire_ms = value.get("expireTimestamp", _NO_TIME)
    return OffsetAndMetadata(
        offset=value["offset"],
        leader_epoch=value.get("leaderEpoch", -1),
        metadata=value["metadata"],
        commit_ms=value["commitTimestamp"],
        expire_ms=None if expire_ms == _NO_TIME else expire_ms,
        topic_id=_topic_id(value.get("topicId")),
        record_offset=record_offset,
    )


def _topic_id(text: str | None) -> uuid.UUID | None:
    return None if text in (None, ZERO_UUID) else uuid_from_text(text)


def _key(group_id: str, partition: TopicPartition) -> dict[str, Any]:
    return {"group": group_id, "topic": partition.topic, "partition": partition.partition}
