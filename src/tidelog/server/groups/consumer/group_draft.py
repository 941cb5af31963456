"""A change of a consumer group in the making: its records so far, and the group as it will be.

Each step of a change looks at the group as the steps before left it, though nothing is written yet: records are applied
to a copy by the same code that applies them to the group once they are in the log. Called by: heartbeats, fencing,
regular expressions. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.server.groups.consumer.consumer_group import ConsumerGroup
from tidelog.server.groups.group_map import GroupMap
from tidelog.server.groups.log.group_record import GroupRecord
from tidelog.server.groups.log.replay import Replay
from tidelog.server.groups.offsets.offset_store import OffsetStore

_NOT_WRITTEN = -1


class GroupDraft:
    """``records`` are what is to be written; ``group`` what comes of it."""

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
        """Records of what the copy was made from: a group of the other type that this one takes the place of."""
        self.records.extend(records)
