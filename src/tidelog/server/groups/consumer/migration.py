"""Live migration of groups between the classic and the consumer protocol, member by member (KIP-848).

=====================================================  ===========================================================
event                                                  effect, if ``group.consumer.migration.policy`` allows it
=====================================================  ===========================================================
a member of the new protocol joins a classic group     it becomes a consumer group; its members keep the classic
                                                       protocol, and the coordinator assigns
the last member of the new protocol leaves             the group becomes a classic one, and rebalances
a static member comes back with the classic protocol   the same, if it was the last of the new protocol; a
                                                       rebalance only if its subscription changed
=====================================================  ===========================================================

The coordinator decodes the members' subscriptions and assignments. A group with user data in its assignments cannot
migrate. One batch deletes the group of one type and writes it as the other. Thread rule: the event loop only.
Source: Kafka's ``ConsumerGroup.fromClassicGroup``, ``ClassicGroup.fromConsumerGroup``,
``ConsumerGroupMigrationPolicy``.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

from tidelog.model import CorruptRecordError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.groups.classic.rebalancing import Rebalancing
from tidelog.server.groups.consumer.targets import metadata_hash
from tidelog.server.groups.records.classic_records import group_metadata
from tidelog.server.groups.records.consumer_records import group_tombstones
from tidelog.server.groups.records.replay import GroupDraft
from tidelog.server.groups.state.classic_group import ClassicGroup, ClassicState
from tidelog.server.groups.state.classic_member import ClassicMember
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.consumer_member import ClassicMemberMetadata, ConsumerMember, Partitions, each_of
from tidelog.server.groups.state.consumer_protocol import (
    PROTOCOL_TYPE,
    TopicPartitions,
    read_assignment,
    read_subscription,
    write_assignment,
)
from tidelog.server.groups.state.group_topics import Topics
from tidelog.server.groups.state.journal import Done
from tidelog.server.groups.state.shard_context import ShardContext


class Migration:
    """The conversions of one shard's groups."""

    def __init__(self, context: ShardContext, rebalancing: Rebalancing) -> None:
        self._context = context
        self._rebalancing = rebalancing

    def to_consumer(self, group: ClassicGroup) -> ConsumerGroup:
        """Return the group converted, outside the shard. Raise ApiError(GROUP_ID_NOT_FOUND), as Kafka, if it cannot."""
        self._check_upgrade(group)
        try:
            converted = _as_consumer_group(group, self._context.topics)
        except CorruptRecordError:
            raise _refused(group, "the embedded consumer protocol is malformed") from None
        for member in group.members.values():
            response = {"error_code": ErrorCode.REBALANCE_IN_PROGRESS, "member_id": member.member_id}
            group.complete_join_reply(member, response)
            group.complete_sync_reply(member, {"error_code": ErrorCode.REBALANCE_IN_PROGRESS})
        return converted

    def downgrades_after_leaving(self, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
        """Return True if only members of the classic protocol remain after ``leaving``, and a downgrade is allowed."""
        gone = {member.member_id for member in leaving}
        left = [member for member in group.members.values() if member.member_id not in gone]
        return bool(left) and self._may_downgrade(left)

    def downgrades_on_rejoin(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Return True if a downgrade is due because ``replaced``, of the new protocol, rejoins with the classic one."""
        others = [member for member in group.members.values() if member is not replaced]
        return (
            replaced.classic is None and self._may_downgrade(others) and len(others) < self._context.settings.max_size
        )

    def _may_downgrade(self, left: Collection[ConsumerMember]) -> bool:
        settings = self._context.settings
        all_are_classic = all(member.classic is not None for member in left)
        return all_are_classic and settings.consumer.may_downgrade and len(left) <= settings.max_size

    def to_classic(
        self, draft: GroupDraft, leaving: Sequence[ConsumerMember], done: Done, *, must_rebalance: bool = True
    ) -> None:
        """Write the group as a classic one, without ``leaving``. ``must_rebalance`` makes all members join again."""
        group = draft.group
        gone = {member.member_id for member in leaving}
        converted = _as_classic_group(group, gone, self._context.topics, self._context.timers.now_ms())
        records = [*draft.records, *group_tombstones(group), group_metadata(converted, converted.assignments)]
        self._context.journal.write(records, done)
        if not isinstance(self._context.groups.get(group.group_id), ClassicGroup):
            return  # the write failed, and the group is unchanged
        self._context.groups[group.group_id] = converted  # it has all protocols, the record only the chosen one
        for member in converted.members.values():
            self._rebalancing.expect_heartbeat(converted, member)
        if must_rebalance:
            self._rebalancing.prepare(converted, "it was a consumer group until now")

    def _check_upgrade(self, group: ClassicGroup) -> None:
        if not self._context.settings.consumer.may_upgrade:
            raise _refused(group, "online upgrade is disabled")
        if not group.uses_consumer_protocol:
            raise _refused(group, "the group does not use the consumer embedded protocol")
        if len(group.members) > self._context.settings.consumer.max_size:
            raise _refused(group, "the group size exceeds the consumer group maximum size")


def topic_partitions(partitions: TopicPartitions, topics: Topics) -> Partitions:
    """Translate topic names to ids. Deleted topics are omitted."""
    found = ((topics.by_name(name), numbers) for name, numbers in partitions.items())
    return {topic.id: frozenset(numbers) for topic, numbers in found if topic is not None and numbers}


def assignment_bytes(member: ConsumerMember, partitions: Partitions, topics: Topics) -> bytes:
    """Encode an assignment for a member of the classic protocol, in the version that the member uses."""
    assert member.classic is not None
    version = read_subscription(member.classic.protocols[0].metadata).version
    return write_assignment(_by_name(partitions, topics), version)


def _as_consumer_group(group: ClassicGroup, topics: Topics) -> ConsumerGroup:
    converted = ConsumerGroup(
        group_id=group.group_id, group_epoch=group.generation_id, assignment_epoch=group.generation_id
    )
    for member in group.members.values():
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise _refused(
                group,
                "an unsupported custom assignor is in use. "
                "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade",
            )
        assigned = topic_partitions(assignment.partitions, topics)
        converted.targets[member.member_id] = assigned
        converted.put_member(_as_consumer_member(member, group, assigned))
    converted.metadata_hash = metadata_hash(converted, topics)
    return converted


def _as_consumer_member(member: ClassicMember, group: ClassicGroup, assigned: Partitions) -> ConsumerMember:
    subscription = read_subscription(member.metadata(group.protocol_name or member.protocols[0].name))
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=group.generation_id,
        previous_member_epoch=group.generation_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        assigned=assigned,
        assignment_epochs=dict.fromkeys(each_of(assigned), group.generation_id),
        classic=ClassicMemberMetadata(session_timeout_ms=member.session_timeout_ms, protocols=member.protocols),
    )


def _as_classic_group(group: ConsumerGroup, gone: set[str], topics: Topics, now_ms: int) -> ClassicGroup:
    converted = ClassicGroup(
        group_id=group.group_id,
        generation_id=group.group_epoch,
        state=ClassicState.STABLE,
        state_changed_ms=now_ms,
        protocol_type=PROTOCOL_TYPE,
    )
    for member in group.members.values():
        if member.member_id not in gone:
            converted.add(_as_classic_member(member))
    converted.protocol_name = converted.choose_protocol()
    converted.subscribed_topics = converted.read_subscribed_topics()
    for classic in converted.members.values():
        version = read_subscription(classic.metadata(converted.protocol_name)).version
        classic.assignment = write_assignment(_by_name(group.target(classic.member_id), topics), version)
    return converted


def _as_classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=PROTOCOL_TYPE,
        protocols=member.classic.protocols,
    )


def _by_name(partitions: Partitions, topics: Topics) -> dict[str, list[int]]:
    found: list[tuple[uuid.UUID, list[int]]] = [(topic_id, sorted(numbers)) for topic_id, numbers in partitions.items()]
    named = ((topics.by_id(topic_id), numbers) for topic_id, numbers in found)
    return {topic.name: numbers for topic, numbers in named if topic is not None}


def _refused(group: ClassicGroup, reason: str) -> ApiError:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, message)
