"""The input of an assignor, and the type of assignors. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidelog.server.groups.consumer.consumer_member import Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedMember:
    """``topics`` are the existing topics of its subscription. ``assigned`` is its previous target."""

    instance_id: str | None = None
    topics: frozenset[uuid.UUID]
    assigned: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInput:
    """``members`` by id, and the partition count of each topic that any of them reads."""

    members: Mapping[str, AssignedMember]
    partitions: Mapping[uuid.UUID, int]

    @property
    def is_homogeneous(self) -> bool:
        """True if all members read the same topics."""
        return len({member.topics for member in self.members.values()}) <= 1


Assignor = Callable[[AssignmentInput], dict[str, Partitions]]
"""A function whose result has every member, and assigns each partition of a subscribed topic to one subscriber."""
