"""A consumer group, as in the log: members, three epochs, target assignments, owners of partitions.

==================  ==============================================================================================
epoch               grows when
==================  ==============================================================================================
group epoch         a member joins, leaves, or changes its subscription; a subscribed topic changes
assignment epoch    the target assignment was computed for that group epoch
member epoch        that member has reconciled itself with that target assignment
==================  ==============================================================================================

=============  =========================================================
state          condition
=============  =========================================================
Empty          no members
Assigning      the group epoch is ahead of the assignment epoch
Reconciling    a member has not reached the target yet
Stable         else
=============  =========================================================

Only the group's records change it (``records.consumer_records``), when they are written and when they are read. Values
that are computed from them here are the same before and after a move of the coordinator. Pure.
Source: Kafka's ``ConsumerGroup``, ``ModernGroup``; KIP-848.
"""

from __future__ import annotations

import enum
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.groups.state.consumer_member import NO_PARTITIONS, ConsumerMember, Partitions, each_of


class ConsumerGroupState(enum.StrEnum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The topics that a regular expression matched at a version of the metadata."""

    topics: frozenset[str] = frozenset()
    version: int = 0
    resolved_ms: int = 0


@dataclass(slots=True, kw_only=True)
class ConsumerGroup:
    """``metadata_hash`` is the hash of the topics at the last change of the group epoch."""

    group_id: str
    group_epoch: int = 1
    """The first member raises it to 2, as in Kafka 4.4. Older releases began with 1."""
    metadata_hash: int = 0
    assignment_epoch: int = 1
    assigned_ms: int = 0
    """The time of the target assignment, or 0 if no record has it."""
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """The member ids by instance id."""
    targets: dict[str, Partitions] = field(default_factory=dict)
    """The target partitions by member id."""
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    has_partition_metadata: bool = False
    """True if the log has a record of Kafka 4.0 or before, which the next change deletes."""
    knows_topics: bool = False
    """True if no subscribed topic changed since the last check. It is not in the log: a new coordinator checks."""
    _owners: dict[tuple[uuid.UUID, int], str] = field(default_factory=dict)
    _regex_members: Counter[str] = field(default_factory=Counter)

    # --- queries ---

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        """The group's state. Thread rule: any thread."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in list(self.members.values())):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def member_regexes(self) -> frozenset[str]:
        """The regular expressions that members subscribe with."""
        return frozenset(self._regex_members)

    def regex_members(self, regex: str) -> int:
        """Count the members that subscribe with ``regex``."""
        return self._regex_members[regex]

    @property
    def classic_members(self) -> list[ConsumerMember]:
        """The members that still use the classic protocol."""
        return [member for member in self.members.values() if member.classic is not None]

    def member(self, member_id: str) -> ConsumerMember:
        """Return the member. Raise ApiError(UNKNOWN_MEMBER_ID) if it does not exist."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def owner(self, topic_id: uuid.UUID, number: int) -> str | None:
        """Return the member that has a partition, also if it is to give it up, or None."""
        return self._owners.get((topic_id, number))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics a member reads: its topic names, and the matches of its regular expression."""
        resolved = self.regexes.get(member.topic_regex or "")
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        return frozenset(topic for member in self.members.values() for topic in self.topics_of(member))

    def is_subscribed(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    @property
    def preferred_assignor(self) -> str | None:
        """The assignor that most members request, or None if no member requests one."""
        named = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return named.most_common(1)[0][0] if named else None

    def copy(self) -> Self:
        """Return a copy that changes independently."""
        return replace(
            self,
            members=dict(self.members),
            static_members=dict(self.static_members),
            targets=dict(self.targets),
            regexes=dict(self.regexes),
            _owners=dict(self._owners),
            _regex_members=Counter(self._regex_members),
        )

    # --- changes by records ---

    def put_member(self, member: ConsumerMember) -> None:
        """Add or replace a member."""
        self._forget(member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if member.topic_regex:
            self._regex_members[member.topic_regex] += 1
        for partition in _each(member):
            self._owners[partition] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a member and its target. Idempotent."""
        self._forget(member_id)
        self.targets.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is not None and self.static_members.get(member.instance_id or "") == member_id:
            del self.static_members[member.instance_id or ""]

    def _forget(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is None:
            return
        for partition in _each(member):
            if self._owners.get(partition) == member_id:
                del self._owners[partition]
        if member.topic_regex:
            self._regex_members[member.topic_regex] -= 1
            self._regex_members += Counter()  # drops zero counts


def _each(member: ConsumerMember) -> Iterator[tuple[uuid.UUID, int]]:
    yield from each_of(member.assigned)
    yield from each_of(member.pending_revocation)
