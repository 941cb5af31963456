"""A classic group: its members, leader, generation and state. Pure: no timers and no writes.

The class maintains these rules:

* the leader is a member if the group has any, and so is the owner of each instance id;
* ``protocol_type`` is that of all members, and all members have at least one protocol in common;
* a state is reached only from the states in ``REACHED_FROM``.

====================  ==========================================  =============================================
state                 meaning                                     next states
====================  ==========================================  =============================================
Empty                 no members; offsets may be left             PreparingRebalance, when the first one joins
PreparingRebalance    waits for its members to join               CompletingRebalance, when all joined or the
                                                                  time is over; Empty, when no member is left
CompletingRebalance   waits for the leader's assignment           Stable, when it is written;
                                                                  PreparingRebalance, when the members change
Stable                members have, or can get, their assignment  PreparingRebalance, when the members change
Dead                  owned by another broker, or deleted         none
====================  ==========================================  =============================================

A *pending* member got its id and has not joined with it yet: a rebalance waits for it. The room ``classic`` handles the
members' requests, and has the timers. Source: Kafka's ``ClassicGroup``, ``ClassicGroupState``.
"""

from __future__ import annotations

import enum
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.model import CorruptRecordError
from tidelog.protocol.errors import ErrorCode
from tidelog.server.groups.state.classic_member import ClassicMember, Protocol, Reply, ResponseFields
from tidelog.server.groups.state.consumer_protocol import PROTOCOL_TYPE, read_subscription


class ClassicState(enum.StrEnum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


REACHED_FROM: Final = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.STABLE: frozenset({ClassicState.COMPLETING_REBALANCE}),
    ClassicState.DEAD: frozenset(ClassicState),
}


NO_GENERATION = -1
NO_MEMBER = ""
"""The member id of a client that has none yet."""


@dataclass(slots=True, kw_only=True)
class ClassicGroup:
    """``generation_id`` counts the rebalances. ``state_changed_ms`` is None for groups read from very old records."""

    group_id: str
    generation_id: int = 0
    state: ClassicState = ClassicState.EMPTY
    previous_state: ClassicState | None = None
    state_changed_ms: int | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """The member ids by instance id."""
    pending_members: set[str] = field(default_factory=set)
    pending_syncs: set[str] = field(default_factory=set)
    """Members of this generation that have not sent SyncGroup."""
    has_new_member: bool = False
    """True if a member came while the first rebalance waited, which then waits a little longer."""
    subscribed_topics: frozenset[str] | None = None
    """The topics that consumers read, or None if they are unknown."""

    # --- queries ---

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of its members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def joining_count(self) -> int:
        return sum(member.is_joining for member in self.members.values())

    @property
    def all_have_joined(self) -> bool:
        return not self.pending_members and all(member.is_joining for member in self.members.values())

    @property
    def absent_dynamic_members(self) -> list[str]:
        """The dynamic members (without instance id) that did not join this rebalance."""
        return [member.member_id for member in self.members.values() if not member.is_joining and not member.is_static]

    @property
    def can_rebalance(self) -> bool:
        return self.state in REACHED_FROM[ClassicState.PREPARING_REBALANCE]

    @property
    def assignments(self) -> dict[str, bytes]:
        return {member_id: member.assignment for member_id, member in self.members.items()}

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def is_subscribed(self, topic: str) -> bool:
        """Return True if a member may read ``topic``. Consumers with unknown topics count as readers of every topic."""
        return self.uses_consumer_protocol if self.subscribed_topics is None else topic in self.subscribed_topics

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return True if a client with these protocols may join: all members know at least one in common."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in names)
        votes = self._known_protocols()
        return self.protocol_type == protocol_type and any(votes[name] == len(self.members) for name in names)

    def membership_error(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """Return the error code for a client that is not a member (any longer), or None for a member."""
        if instance_id is not None:
            owner = self.static_members.get(instance_id)
            if owner is not None and owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def choose_protocol(self) -> str:
        """Return the protocol that most members prefer, of the protocols that all know. Ties go to the first vote."""
        known = self._known_protocols()
        candidates = {name for name, count in known.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def described_members(self) -> list[dict[str, object]]:
        """Return the members' metadata for the chosen protocol, which the leader needs to assign."""
        return [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "metadata": member.metadata(self.protocol_name),
            }
            for member in self.members.values()
        ]

    # --- members ---

    @staticmethod
    def new_member_id(client_id: str, instance_id: str | None) -> str:
        return f"{client_id if instance_id is None else instance_id}-{uuid.uuid4()}"

    def add(self, member: ClassicMember) -> None:
        """Add a member. The first member becomes the leader."""
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type, (self.protocol_type, member)
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members, member
            self.static_members[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or pending member. The next member replaces a removed leader. Idempotent."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.is_leader(member_id):
            self.leader_id = next(iter(self.members), None)
        self.pending_members.discard(member_id)
        self.pending_syncs.discard(member_id)

    def replace_static(self, instance_id: str, new_member_id: str) -> ClassicMember:
        """Give the instance id to another process, and fence the previous member's pending requests."""
        old = self.members.pop(self.static_members[instance_id])
        fenced = {"error_code": ErrorCode.FENCED_INSTANCE_ID, "member_id": old.member_id}
        self.complete_join_reply(old, fenced)
        self.complete_sync_reply(old, {"error_code": ErrorCode.FENCED_INSTANCE_ID})
        new = ClassicMember(
            member_id=new_member_id,
            instance_id=instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocol_type=old.protocol_type,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members[new_member_id] = new
        self.static_members[instance_id] = new_member_id
        if self.is_leader(old.member_id):
            self.leader_id = new_member_id
        return new

    def update(
        self,
        member: ClassicMember,
        protocols: Sequence[Protocol],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        reply: Reply | None,
    ) -> None:
        """Store the fields of a member's new join. ``reply`` waits for the rebalance."""
        member.protocols = tuple(protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        member.join_reply = reply

    def complete_join_reply(self, member: ClassicMember, response: ResponseFields) -> bool:
        """Reply to the member's pending join. Return False if there is none."""
        reply, member.join_reply = member.join_reply, None
        if reply is not None:
            reply(response)
        return reply is not None

    def complete_sync_reply(self, member: ClassicMember, response: ResponseFields) -> bool:
        """Reply to the member's pending sync. Return False if there is none."""
        reply, member.sync_reply = member.sync_reply, None
        if reply is not None:
            reply(response)
        return reply is not None

    # --- states ---

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        assert self.state in REACHED_FROM[state], (self.group_id, self.state, state)
        self.previous_state, self.state = self.state, state
        self.state_changed_ms = now_ms

    def elect_joined_leader(self) -> bool:
        """Ensure that the leader is a joined member. Return False if no member joined."""
        leader = self.members.get(self.leader_id or NO_MEMBER)
        if leader is None or leader.is_joining:
            return leader is not None
        joined = next((member for member in self.members.values() if member.is_joining), None)
        if joined is not None:
            self.leader_id = joined.member_id
        return joined is not None

    def begin_generation(self, now_ms: int) -> None:
        """Begin a generation with the current members: choose their protocol, or become empty."""
        self.generation_id += 1
        self.protocol_name = self.choose_protocol() if self.members else None
        self.subscribed_topics = self.read_subscribed_topics()
        self.move_to(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now_ms)
        self.pending_syncs.clear()

    def set_assignments(self, assignments: Mapping[str, bytes]) -> None:
        """Set the members' assignments. Members that are not in ``assignments`` get an empty one."""
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")

    def read_subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics of all members if they are consumers, or None if the topics are unknown."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        try:
            return frozenset(topic for topics in self._topics_of_members() for topic in topics)
        except CorruptRecordError:
            return None

    def _topics_of_members(self) -> Iterator[tuple[str, ...]]:
        for member in self.members.values():
            yield read_subscription(member.metadata(self.protocol_name)).topics

    def _known_protocols(self) -> Counter[str]:
        """Count the members that know each protocol."""
        return Counter(name for member in self.members.values() for name in set(member.protocol_names))
