"""One member of a consumer group, as the log has it: who it is, what it reads, what it has. Immutable. Pure.

=======================  ==========================================================================================
state                    means
=======================  ==========================================================================================
STABLE                   it has what the target assignment of its epoch gives it
UNREVOKED_PARTITIONS     it has to give up ``pending_revocation`` and say so before its epoch goes on
UNRELEASED_PARTITIONS    it is at the target's epoch, but others still have partitions that are to be its own
UNKNOWN                  a state this version does not know was in the log; it has to begin anew
=======================  ==========================================================================================

Source: Kafka's ``ConsumerGroupMember``, ``MemberState``; KIP-848.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from tidelog.server.groups.classic.classic_member import Protocol

Partitions = Mapping[uuid.UUID, frozenset[int]]
"""Partitions by topic id; no topic without any."""
AssignmentEpochs = Mapping[tuple[uuid.UUID, int], int]
"""By topic id and partition: the epoch of the group in which the member got it."""

NO_PARTITIONS: Final[Partitions] = {}
JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
"""Of a static member that is away and may come back: its partitions stay its own until its session is over."""


class MemberState(enum.IntEnum):
    """The numbers are those of the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSide:
    """What is known of a member that still speaks the classic protocol, while the group moves to the new one."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """``assigned`` is what it may use; ``rebalance_timeout_ms`` how long it may take to give something up.

    ``assignment_epochs``: of every partition that is assigned or to be given up. A commit that names an older epoch of
    the member is good for a partition that the member already had in that epoch (KIP-1251).
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
    classic: ClassicSide | None = None

    @property
    def is_away(self) -> bool:
        """A static member that left and may come back."""
        return self.member_epoch == STATIC_LEAVING_EPOCH

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def at_epoch(
        self, epoch: int, state: MemberState, assigned: Partitions, pending: Partitions, *, granted_epoch: int
    ) -> Self:
        """The member after a step of its reconciliation; ``granted_epoch`` is that of what it did not have."""
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
        """A static member that leaves and may come back: it has its partitions from the beginning of epochs."""
        return replace(
            self,
            member_epoch=STATIC_LEAVING_EPOCH,
            pending_revocation=NO_PARTITIONS,
            assignment_epochs=dict.fromkeys(each_of(self.assigned), 0),
        )

    def without_assignment(self) -> Self:
        """As the log has a member whose current assignment was deleted."""
        return self.at_epoch(LEAVING_EPOCH, MemberState.STABLE, NO_PARTITIONS, NO_PARTITIONS, granted_epoch=0)


def each_of(partitions: Partitions) -> Iterator[tuple[uuid.UUID, int]]:
    """Topic id and number of each."""
    return ((topic_id, number) for topic_id, numbers in partitions.items() for number in numbers)
