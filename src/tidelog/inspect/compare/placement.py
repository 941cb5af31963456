"""A partition's replicas by the cluster metadata, and the role of each replica.

The caller reads the metadata (``server.metadata``), because this room lies below the broker.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field


class Role(enum.StrEnum):
    LEADER = "leader"
    IN_SYNC = "in sync"
    ELIGIBLE = "eligible"
    """The replica is not in sync, but has every committed record (KIP-966)."""
    OUT_OF_SYNC = "out of sync"
    NOT_ASSIGNED = "not assigned"
    """The metadata places the partition on other brokers, or in another log directory of this broker."""
    UNKNOWN = "unknown"
    """The partition has no metadata, or the directory's node is not known."""

    @property
    def has_committed_records(self) -> bool:
        """True if the replica must have every record below the high watermark."""
        return self in (Role.LEADER, Role.IN_SYNC, Role.ELIGIBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The metadata of one partition. Replicas are broker ids; ``leader`` is -1 if there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    topic_id: uuid.UUID | None = None
    directories: Mapping[int, uuid.UUID] = field(default_factory=dict)
    """The log directory id of each replica that is assigned to a known directory."""
    is_compacted: bool = False

    def role_of(self, node_id: int | None, directory_id: uuid.UUID | None) -> Role:
        """Return the role of the replica in a log directory. It is unknown if the directory's node is."""
        if node_id is None:
            return Role.UNKNOWN
        assigned = self.directories.get(node_id)
        if node_id not in self.replicas or (None not in (assigned, directory_id) and assigned != directory_id):
            return Role.NOT_ASSIGNED
        if node_id == self.leader:
            return Role.LEADER
        if node_id in self.isr:
            return Role.IN_SYNC
        return Role.ELIGIBLE if node_id in self.elr else Role.OUT_OF_SYNC
