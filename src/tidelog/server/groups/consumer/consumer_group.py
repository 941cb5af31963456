"""A consumer group as the log has it: its members, three epochs, target assignments, who has which partition.

==================  ==============================================================================================
epoch               grows when
==================  ==============================================================================================
group epoch         a member comes, goes, or changes what it reads; a topic it reads changes
assignment epoch    the target assignment was computed for that group epoch
member epoch        that member has reconciled itself with that target assignment
==================  ==============================================================================================

=============  =========================================================
state          condition
=============  =========================================================
Empty          no members
Assigning      the group epoch is past the assignment epoch
Reconciling    a member is not reconciled with the target yet
Stable         else
=============  =========================================================

Changed only by the records of the group (``log.consumer_records``), when they are written and when they are read:
what is computed from them here is the same before and after a move of the coordinator. Pure.
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
from tidelog.server.groups.consumer.consumer_member import NO_PARTITIONS, ConsumerMember, Partitions, each_of


class ConsumerGroupState(enum.StrEnum):
    """The value is the name clients see."""

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
    """``metadata_hash`` is of the topics that the target assignment was made for."""

    group_id: str
    group_epoch: int = 1
    """The first member makes it 2, as in Kafka 4.4; older releases began with 1."""
    metadata_hash: int = 0
    assignment_epoch: int = 1
    assigned_ms: int = 0
    """When the target assignment was computed; 0 where no record says so."""
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Instance id -> member id."""
    targets: dict[str, Partitions] = field(default_factory=dict)
    """Member id -> what it is to have."""
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    has_partition_metadata: bool = False
    """A record of Kafka 4.0 and before is in the log; the next change deletes it."""
    knows_topics: bool = False
    """Nothing changed with the topics since they were last looked at. Not in the log: a new coordinator looks."""
    _owners: dict[tuple[uuid.UUID, int], str] = field(default_factory=dict)
    _regex_members: Counter[str] = field(default_factory=Counter)

    # --- what is asked ---

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        """Any thread may ask, for reports."""
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
        """How many members subscribe with ``regex``."""
        return self._regex_members[regex]

    @property
    def classic_members(self) -> list[ConsumerMember]:
        """Those that still speak the classic protocol."""
        return [member for member in self.members.values() if member.classic is not None]

    def member(self, member_id: str) -> ConsumerMember:
        """UNKNOWN_MEMBER_ID where there is none."""
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
        """Who has a partition, be it to give it up."""
        return self._owners.get((topic_id, number))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names of the topics a member reads: those it names, and those its regular expression matched."""
        resolved = self.regexes.get(member.topic_regex or "")
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        return frozenset(topic for member in self.members.values() for topic in self.topics_of(member))

    def is_subscribed(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    @property
    def preferred_assignor(self) -> str | None:
        """The one most of the members that name one ask for."""
        named = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return named.most_common(1)[0][0] if named else None

    def copied(self) -> Self:
        """One that changes without this one changing."""
        return replace(
            self,
            members=dict(self.members),
            static_members=dict(self.static_members),
            targets=dict(self.targets),
            regexes=dict(self.regexes),
            _owners=dict(self._owners),
            _regex_members=Counter(self._regex_members),
        )

    # --- what records change ---

    def put_member(self, member: ConsumerMember) -> None:
        """A member is new or changed."""
        self._forget(member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if member.topic_regex:
            self._regex_members[member.topic_regex] += 1
        for partition in _each(member):
            self._owners[partition] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Idempotent."""
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
            self._regex_members += Counter()  # zeros go


def _each(member: ConsumerMember) -> Iterator[tuple[uuid.UUID, int]]:
    yield from each_of(member.assigned)
    yield from each_of(member.pending_revocation)
