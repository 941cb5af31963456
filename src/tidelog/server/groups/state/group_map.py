"""The groups of one shard by id, and the errors for groups that are missing or of another type.

Only ``Replay`` adds groups that were read from the log. Thread rule: the event loop only.
Source: Kafka's ``GroupMetadataManager.group``, ``classicGroup``, ``consumerGroup``.
"""

from __future__ import annotations

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.groups.state.classic_group import ClassicGroup
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.unserved_group import UnservedGroup

ServedGroup = ClassicGroup | ConsumerGroup
Group = ServedGroup | UnservedGroup


class GroupMap(dict[str, Group]):
    """The groups by group id."""

    def find(self, group_id: str) -> Group:
        """Return the group. Raise ApiError(GROUP_ID_NOT_FOUND) if it does not exist."""
        group = self.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def find_classic(self, group_id: str) -> ClassicGroup:
        """Return the group. Raise ApiError(GROUP_ID_NOT_FOUND) if it does not exist or has another type."""
        group = self.find(group_id)
        if not isinstance(group, ClassicGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
        return group

    def find_consumer(self, group_id: str) -> ConsumerGroup:
        """Return the group. Raise ApiError(GROUP_ID_NOT_FOUND) if it does not exist or has another type."""
        group = self.find(group_id)
        if not isinstance(group, ConsumerGroup):
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def find_or_create_classic(self, group_id: str, now_ms: int) -> ClassicGroup:
        """Return the group. A created group is empty, and in no log until a member joins or an offset is committed."""
        if group_id not in self:
            self[group_id] = ClassicGroup(group_id=group_id, state_changed_ms=now_ms)
        return self.find_classic(group_id)
