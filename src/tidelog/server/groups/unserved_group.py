"""A share group or streams group: the log has Kafka's records of it, and this coordinator does not serve its protocol.

The group keeps its id: Kafka does not load a partition in which one id is of two types. So requests of the other
protocols are refused as Kafka refuses them. Its members cannot be heard of here: they stay until Kafka serves the group
again, and with them the offsets that a streams group has committed. A streams group without members may be deleted,
or give way to a classic group. A share group stays: its offsets are in ``__share_group_state``.

Thread rule: the loop's. Source: Kafka's ``ShareGroup`` and ``StreamsGroup``.
"""

from __future__ import annotations

from enum import StrEnum

from tidelog.server.groups.log.group_record import GroupRecord


class UnservedType(StrEnum):
    SHARE = "share"
    STREAMS = "streams"


_SHARE_RECORDS = range(10, 16)
_STREAMS_RECORDS = range(17, 25)
_GROUP_RECORDS = {UnservedType.SHARE: 11, UnservedType.STREAMS: 17}
"""Without it there is no group."""
_MEMBER_RECORDS = {UnservedType.SHARE: 10, UnservedType.STREAMS: 19}
_TARGET_RECORDS = {UnservedType.SHARE: 12, UnservedType.STREAMS: 20}


def unserved_type(record_number: int) -> UnservedType | None:
    """Whose record it is; None: a record of a group that is served."""
    if record_number in _SHARE_RECORDS:
        return UnservedType.SHARE
    return UnservedType.STREAMS if record_number in _STREAMS_RECORDS else None


class UnservedGroup:
    """``records``: what the log says of the group, by record type and key."""

    def __init__(self, group_id: str, type_: UnservedType) -> None:
        self.group_id = group_id
        self.type = type_
        self._records: dict[bytes, GroupRecord] = {}

    def put(self, record: GroupRecord) -> bool:
        """Whether there is such a group afterwards."""
        if record.value is None:
            self._records.pop(record.key_bytes(), None)
        else:
            self._records[record.key_bytes()] = record
        return record.value is not None or record.number != _GROUP_RECORDS[self.type]

    @property
    def is_empty(self) -> bool:
        number = _MEMBER_RECORDS[self.type]
        return not any(record.number == number for record in self._records.values())

    @property
    def gives_way(self) -> bool:
        """Whether it may be deleted here, or become a classic group."""
        return self.is_empty and self.type is UnservedType.STREAMS

    @property
    def state(self) -> str:
        """As in Kafka's ListGroups; a streams group's topology and its members' tasks are not looked at."""
        if self.is_empty:
            return "Empty"
        is_assigned = self.type is UnservedType.SHARE or self._epoch(_GROUP_RECORDS, "epoch") <= self._epoch(
            _TARGET_RECORDS, "assignmentEpoch"
        )
        return "Stable" if is_assigned else "Assigning"

    def is_subscribed(self, topic: str) -> bool:
        """Each topic may be one that its members read: only they know."""
        return not self.is_empty

    def tombstones(self) -> list[GroupRecord]:
        """The group goes: what is said of it as a whole is deleted last."""
        whole = _GROUP_RECORDS[self.type]
        records = sorted(self._records.values(), key=lambda record: record.number == whole)
        return [GroupRecord(record.number, record.key, None) for record in records]

    def _epoch(self, numbers: dict[UnservedType, int], field: str) -> int:
        values = (one.value for one in self._records.values() if one.number == numbers[self.type])
        return max((int(value.get(field, 0)) for value in values if value is not None), default=0)
