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
from collections.abc import Mapping
from typing import Any

from tidelog.model import TopicPartition
from tidelog.record.internal_records.schema import ZERO_UUID
from tidelog.server.groups.log.group_record import GroupRecord
from tidelog.server.groups.offsets.offset_store import CommittedOffset
from tidelog.storage.checkpoint.kafka_uuid import uuid_from_text, uuid_to_text

LEGACY_OFFSET = 0
OFFSET = 1
_WITH_EXPIRY = 1
_VERSION = 4
_NO_TIME = -1


def offset_commit(group_id: str, partition: TopicPartition, committed: CommittedOffset) -> GroupRecord:
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


def read_offset(value: Mapping[str, Any], record_offset: int) -> CommittedOffset:
    expire_ms = value.get("expireTimestamp", _NO_TIME)
    return CommittedOffset(
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
