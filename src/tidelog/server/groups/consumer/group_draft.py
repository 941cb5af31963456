"""A draft of a consumer group's change: its records so far, and the group after them. Pure.

Each step of a change sees the group after the previous steps, although no record is written yet. The draft applies the
records to a copy of the group, with the same code that applies written records.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.server.groups.records.replay import Replay
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.group_map import GroupMap
from tidelog.server.groups.state.offset_store import OffsetStore

_NOT_WRITTEN = -1


class GroupDraft:
    """``records`` are still to be written. ``group`` is the group after them."""

    def __init__(self, group: ConsumerGroup) -> None:
        self._group_id = group.group_id
        self._groups = GroupMap({group.group_id: group.copied()})
        self._replay = Replay(self._groups, OffsetStore())
        self.records: list[GroupRecord] = []

    @property
    def group(self) -> ConsumerGroup:
        return self._groups.find_consumer(self._group_id)

    def add(self, *records: GroupRecord) -> None:
        for record in records:
            self._replay.apply(record, _NOT_WRITTEN)
        self.records.extend(records)

    def add_unapplied(self, records: Iterable[GroupRecord]) -> None:
        """Add records about the source of the copy: the group of the other type that this one replaces."""
        self.records.extend(records)
