"""What the cluster knows of one partition: an immutable value, changed by making the next one.

====================  ==============================================================================================
leader epoch          one more with every record that names a leader, be it the same one again
partition epoch       one more with every record
no leader             ``leader`` is -1; the in-sync replicas may then be none, and the eligible ones (KIP-966) are
                      those that may lead without losing records
directories           of each replica the id of its log directory, or one of the reserved ids below
====================  ==============================================================================================

Pure. Source: Kafka's ``PartitionRegistration``, ``DirectoryId``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from tidelog.storage.checkpoint import uuid_from_text, uuid_to_text

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
RECOVERED: Final = 0
RECOVERING: Final = 1
_NO_RECOVERY_CHANGE: Final = -1

MIGRATING: Final = uuid.UUID(int=0)
"""The directory of a replica from before brokers had ids of directories."""
UNASSIGNED: Final = uuid.UUID(int=1)
"""The broker has not yet said in which of its directories it put the replica."""
LOST: Final = uuid.UUID(int=2)
"""A directory that is offline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Replicas are broker ids; the first of ``replicas`` is the preferred leader."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    directories: tuple[uuid.UUID, ...] = ()
    """One a replica, in the same order."""
    adding: tuple[int, ...] = ()
    """Of a reassignment under way."""
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    """Eligible leader replicas: not in sync any more, but with every record that was committed."""
    last_known_elr: tuple[int, ...] = ()
    is_recovering: bool = False
    """The leader was elected without having been eligible."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """From a ``PartitionRecord``."""
        replicas = tuple(fields["replicas"])
        return cls(
            replicas=replicas,
            isr=tuple(fields["isr"]),
            leader=fields["leader"],
            leader_epoch=fields["leaderEpoch"],
            partition_epoch=fields["partitionEpoch"],
            directories=_directories(fields.get("directories"), len(replicas)),
            adding=tuple(fields["addingReplicas"]),
            removing=tuple(fields["removingReplicas"]),
            elr=tuple(fields.get("eligibleLeaderReplicas") or ()),
            last_known_elr=tuple(fields.get("lastKnownElr") or ()),
            is_recovering=fields.get("leaderRecoveryState") == RECOVERING,
        )

    def changed(self, fields: Mapping[str, Any]) -> Self:
        """By a ``PartitionChangeRecord``: what it leaves out stays."""
        leader = fields.get("leader", NO_LEADER_CHANGE)
        replicas = _or(fields.get("replicas"), self.replicas)
        recovery = fields.get("leaderRecoveryState", _NO_RECOVERY_CHANGE)
        directories = fields.get("directories")
        return replace(
            self,
            replicas=replicas,
            isr=_or(fields.get("isr"), self.isr),
            leader=self.leader if leader == NO_LEADER_CHANGE else leader,
            leader_epoch=self.leader_epoch + (leader != NO_LEADER_CHANGE),
            partition_epoch=self.partition_epoch + 1,
            directories=_directories(directories, len(replicas)) if directories else self._directories_of(replicas),
            adding=_or(fields.get("addingReplicas"), self.adding),
            removing=_or(fields.get("removingReplicas"), self.removing),
            elr=_or(fields.get("eligibleLeaderReplicas"), self.elr),
            last_known_elr=_or(fields.get("lastKnownElr"), self.last_known_elr),
            is_recovering=self.is_recovering if recovery == _NO_RECOVERY_CHANGE else recovery == RECOVERING,
        )

    def fields(self) -> dict[str, Any]:
        """Of a ``PartitionRecord``, but for topic and number."""
        return {
            "replicas": list(self.replicas),
            "isr": list(self.isr),
            "removingReplicas": list(self.removing),
            "addingReplicas": list(self.adding),
            "leader": self.leader,
            "leaderRecoveryState": RECOVERING if self.is_recovering else RECOVERED,
            "leaderEpoch": self.leader_epoch,
            "partitionEpoch": self.partition_epoch,
            "directories": [uuid_to_text(directory) for directory in self.directories],
            "eligibleLeaderReplicas": list(self.elr) or None,
            "lastKnownElr": list(self.last_known_elr) or None,
        }

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def has_preferred_leader(self) -> bool:
        return self.leader == self.replicas[0]

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    def directory_of(self, broker_id: int) -> uuid.UUID:
        """Of that replica; UNASSIGNED for a broker that has none."""
        return dict(zip(self.replicas, self.directories, strict=True)).get(broker_id, UNASSIGNED)

    def _directories_of(self, replicas: tuple[int, ...]) -> tuple[uuid.UUID, ...]:
        """Where the record does not say (before metadata.version 17): those that stay, stay where they are."""
        return self.directories if replicas == self.replicas else tuple(map(self.directory_of, replicas))


def _or(found: list[int] | None, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    return otherwise if found is None else tuple(found)


def _directories(texts: list[str] | None, replicas: int) -> tuple[uuid.UUID, ...]:
    return tuple(map(uuid_from_text, texts)) if texts else (MIGRATING,) * replicas
