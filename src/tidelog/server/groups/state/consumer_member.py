"""A member of a consumer group, as in the log: identity, subscription, assignment. Immutable. Pure.

=======================  ==========================================================================================
state                    meaning
=======================  ==========================================================================================
STABLE                   it has the target assignment of its epoch
UNREVOKED_PARTITIONS     it must give up ``pending_revocation`` and report that before its epoch grows
UNRELEASED_PARTITIONS    it is at the target's epoch, but others still have partitions of its target
UNKNOWN                  the log has a state that this version does not know; the member must rejoin
=======================  ==========================================================================================

Source: Kafka's ``ConsumerGroupMember``, ``MemberState``; KIP-848.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from tidelog.server.groups.state.classic_member import Protocol

Partitions = Mapping[uuid.UUID, frozenset[int]]
"""Partition numbers by topic id. Every topic has at least one."""
AssignmentEpochs = Mapping[tuple[uuid.UUID, int], int]
"""The group epoch in which the member got a partition, by topic id and partition number."""

NO_PARTITIONS: Final[Partitions] = {}
JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
"""The epoch of a static member that is away and may come back. It keeps its partitions until its session times out."""


class MemberState(enum.IntEnum):
    """The numbers are the log's."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """The facts about a member that still uses the classic protocol, while the group migrates."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """``assigned`` is for use now. ``rebalance_timeout_ms`` is the time to give partitions up.

    ``assignment_epochs`` has every partition that is assigned or pending revocation. A commit with an older member
    epoch is valid for partitions that the member already had in that epoch (KIP-1251).
    """

    member_id: str
    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    assignor: str | None = None
    assigned: Partitions = field(default_factory=dict)
    pending_revocation: Partitions = field(default_factory=dict)
    assignment_epochs: AssignmentEpochs = field(default_factory=dict)
    classic: ClassicMemberMetadata | None = None

    @property
    def is_away(self) -> bool:
        """True for a static member that left and may come back."""
        return self.member_epoch == STATIC_LEAVING_EPOCH

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def at_epoch(
        self, epoch: int, state: MemberState, assigned: Partitions, pending: Partitions, *, granted_epoch: int
    ) -> Self:
        """Return the member after a reconciliation step. New partitions get the epoch ``granted_epoch``."""
        had = {place: self.assignment_epochs[place] for place in each_of(self.assigned)}
        now = (*each_of(assigned), *each_of(pending))
        return replace(
            self,
            state=state,
            member_epoch=epoch,
            previous_member_epoch=self.member_epoch,
            assigned=assigned,
            pending_revocation=pending,
            assignment_epochs={place: had.get(place, granted_epoch) for place in now},
        )

    def away(self) -> Self:
        """Return the static member as away: it may come back. Its partitions' assignment epochs become 0."""
        return replace(
            self,
            member_epoch=STATIC_LEAVING_EPOCH,
            pending_revocation=NO_PARTITIONS,
            assignment_epochs=dict.fromkeys(each_of(self.assigned), 0),
        )

    def without_assignment(self) -> Self:
        """Return the member as after the tombstone of its current assignment."""
        return self.at_epoch(LEAVING_EPOCH, MemberState.STABLE, NO_PARTITIONS, NO_PARTITIONS, granted_epoch=0)


def each_of(partitions: Partitions) -> Iterator[tuple[uuid.UUID, int]]:
    """Return topic id and number of each partition."""
    return ((topic_id, number) for topic_id, numbers in partitions.items() for number in numbers)
