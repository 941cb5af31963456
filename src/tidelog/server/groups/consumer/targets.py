"""The target assignment of a consumer group: each member's intended partitions, computed in a draft.

It is computed after the group epoch has grown. Changed targets of members are written first, and the assignment epoch
last, because a target assignment without its epoch does not count.
Source: Kafka's ``TargetAssignmentBuilder``, ``GroupMetadataManager.updateTargetAssignment``.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.server.groups.consumer.assignors import (
    AssignedMember,
    AssignmentInput,
    Assignor,
    assign_ranges,
    assign_uniformly,
)
from tidelog.server.groups.records import consumer_records
from tidelog.server.groups.records.replay import GroupDraft
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.group_topics import TopicFacts, Topics, group_hash

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}

_JAVA_NAMES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


def assignor_names(configured: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in ``group.consumer.assignors``. Kafka's class names are translated, others are dropped."""
    names = (_JAVA_NAMES.get(name, name) for name in configured)
    return tuple(name for name in names if name in ASSIGNORS)


def update_target(draft: GroupDraft, topics: Topics, assignor: str, *, now_ms: int) -> None:
    """Compute the target for the group's epoch if there is none yet."""
    group = draft.group
    if group.assignment_epoch >= group.group_epoch:
        return
    for member_id, partitions in ASSIGNORS[assignor](_input(group, topics)).items():
        if partitions != group.targets.get(member_id):  # a new member's empty target is written too
            draft.add(consumer_records.target(group.group_id, member_id, partitions))
    draft.add(consumer_records.target_epoch(group.group_id, group.group_epoch, now_ms))


def metadata_hash(group: ConsumerGroup, topics: Topics) -> int:
    """Return the hash of the topics that the group reads, in their current state."""
    return group_hash(_existing(group.subscribed_topics, topics).values())


def _input(group: ConsumerGroup, topics: Topics) -> AssignmentInput:
    known = _existing(group.subscribed_topics, topics)
    members = {
        member.member_id: AssignedMember(
            instance_id=member.instance_id,
            topics=frozenset(known[name].id for name in group.topics_of(member) if name in known),
            assigned=group.target(member.member_id),
        )
        for member in group.members.values()
    }
    return AssignmentInput(members=members, partitions={topic.id: topic.partitions for topic in known.values()})


def _existing(names: frozenset[str], topics: Topics) -> dict[str, TopicFacts]:
    found = ((name, topics.by_name(name)) for name in sorted(names))
    return {name: topic for name, topic in found if topic is not None}
