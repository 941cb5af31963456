"""The groups of one shard by id, and what is said of those that are not there or of another type.

Called by: the state machines, and ``Replay``, which alone puts in groups that were read. Thread rule: the loop's.
Source: Kafka's ``GroupMetadataManager.group``, ``classicGroup``, ``consumerGroup``.
"""

from __future__ import annotations

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.groups.classic.classic_group import ClassicGroup
from tidelog.server.groups.consumer.consumer_group import ConsumerGroup
from tidelog.server.groups.unserved_group import UnservedGroup

ServedGroup = ClassicGroup | ConsumerGroup
Group = ServedGroup | UnservedGroup


class GroupMap(dict[str, Group]):
    """Group id -> group."""

    def find(self, group_id: str) -> Group:
        """GROUP_ID_NOT_FOUND where there is none."""
        group = self.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def find_classic(self, group_id: str) -> ClassicGroup:
        """GROUP_ID_NOT_FOUND where there is none, or one of another type."""
        group = self.find(group_id)
        if not isinstance(group, ClassicGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
        return group

    def find_consumer(self, group_id: str) -> ConsumerGroup:
        """GROUP_ID_NOT_FOUND where there is none, or one of another type."""
        group = self.find(group_id)
        if not isinstance(group, ConsumerGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def find_or_make_classic(self, group_id: str, now_ms: int) -> ClassicGroup:
        """A new one is empty, and in no log until somebody joins it or commits an offset."""
        if group_id not in self:
            self[group_id] = ClassicGroup(group_id=group_id, state_changed_ms=now_ms)
        return self.find_classic(group_id)
