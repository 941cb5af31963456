"""What an assignor is given, and the assignors there are. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidelog.server.groups.consumer.consumer_member import Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedMember:
    """``topics`` it reads, of those that exist; ``assigned``: what it was to have so far."""

    instance_id: str | None = None
    topics: frozenset[uuid.UUID]
    assigned: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInput:
    """Members by id; partitions of each topic that any of them reads."""

    members: Mapping[str, AssignedMember]
    partitions: Mapping[uuid.UUID, int]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members read the same topics."""
        return len({member.topics for member in self.members.values()}) <= 1


Assignor = Callable[[AssignmentInput], dict[str, Partitions]]
"""Every member is in what it returns; every partition of a topic that is read is some subscriber's, of one only."""
