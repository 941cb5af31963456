"""A share or streams group: the log has Kafka's records of it, but its protocol is not served here.

The group keeps its id, because Kafka cannot load a partition in which one id has two types. Requests of other protocols
fail as in Kafka. The members cannot send heartbeats here, so they stay until Kafka serves the group again. The offsets
that a streams group committed stay with them. A streams group without members may be deleted, or replaced by a classic
group. A share group stays: its offsets are in ``__share_group_state``.

Thread rule: the event loop only. Source: Kafka's ``ShareGroup`` and ``StreamsGroup``.
"""

from __future__ import annotations

from enum import StrEnum

from tidelog.record.internal_records.group_record import GroupRecord


class UnservedType(StrEnum):
    SHARE = "share"
    STREAMS = "streams"


_SHARE_RECORDS = range(10, 16)
_STREAMS_RECORDS = range(17, 25)
_GROUP_RECORDS = {UnservedType.SHARE: 11, UnservedType.STREAMS: 17}
"""The record type without which the group does not exist."""
_MEMBER_RECORDS = {UnservedType.SHARE: 10, UnservedType.STREAMS: 19}
_TARGET_RECORDS = {UnservedType.SHARE: 12, UnservedType.STREAMS: 20}


def unserved_type(record_number: int) -> UnservedType | None:
    """Return the type of the record's group, or None if the coordinator serves the group."""
    if record_number in _SHARE_RECORDS:
        return UnservedType.SHARE
    return UnservedType.STREAMS if record_number in _STREAMS_RECORDS else None


class UnservedGroup:
    """The group keeps its records from the log, by record type and key."""

    def __init__(self, group_id: str, type_: UnservedType) -> None:
        self.group_id = group_id
        self.type = type_
        self._records: dict[bytes, GroupRecord] = {}

    def put(self, record: GroupRecord) -> bool:
        """Apply a record. Return False if the record deletes the group."""
        if record.value is None:
            self._records.pop(record.key_bytes(), None)
        else:
            self._records[record.key_bytes()] = record
        return record.value is not None or record.number != _GROUP_RECORDS[self.type]

    @property
    def records(self) -> list[GroupRecord]:
        """The newest record of each key."""
        return list(self._records.values())

    @property
    def member_ids(self) -> list[str]:
        number = _MEMBER_RECORDS[self.type]
        return [record.key["memberId"] for record in self._records.values() if record.number == number]

    @property
    def is_empty(self) -> bool:
        return not self.member_ids

    @property
    def can_be_deleted(self) -> bool:
        """True if the group may be deleted here, or become a classic group."""
        return self.is_empty and self.type is UnservedType.STREAMS

    @property
    def state(self) -> str:
        """The state for ListGroups, as in Kafka. A streams group's topology and its members' tasks are ignored."""
        if self.is_empty:
            return "Empty"
        is_assigned = self.type is UnservedType.SHARE or self.group_epoch <= self.assignment_epoch
        return "Stable" if is_assigned else "Assigning"

    @property
    def group_epoch(self) -> int:
        return self._epoch(_GROUP_RECORDS, "epoch")

    @property
    def assignment_epoch(self) -> int:
        return self._epoch(_TARGET_RECORDS, "assignmentEpoch")

    def is_subscribed(self, topic: str) -> bool:
        """Return True if the group has members: only they know the topics that they read."""
        return not self.is_empty

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstones of all the group's records. The group's own record is deleted last."""
        last = _GROUP_RECORDS[self.type]
        records = sorted(self._records.values(), key=lambda record: record.number == last)
        return [GroupRecord(record.number, record.key, None) for record in records]

    def _epoch(self, numbers: dict[UnservedType, int], field: str) -> int:
        values = (one.value for one in self._records.values() if one.number == numbers[self.type])
        return max((int(value.get(field, 0)) for value in values if value is not None), default=0)
