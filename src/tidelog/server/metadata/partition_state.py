"""The metadata of one partition: an immutable value. A change creates the next value.

====================  ==============================================================================================
leader epoch          grows by 1 with every record that names a leader, even the same leader
partition epoch       grows by 1 with every record
no leader             ``leader`` is -1; the in-sync replicas may then be empty, and the eligible leader replicas
                      (KIP-966) may lead without loss of records
directories           the log directory id of each replica, or one of the reserved ids below
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
"""The directory id of a replica that is older than directory ids."""
UNASSIGNED: Final = uuid.UUID(int=1)
"""The directory id of a replica whose broker has not reported it yet."""
LOST: Final = uuid.UUID(int=2)
"""The id of an offline log directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The state of a partition. Replicas are broker ids, and the first of ``replicas`` is the preferred leader."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    directories: tuple[uuid.UUID, ...] = ()
    """The directory ids in the order of ``replicas``."""
    adding: tuple[int, ...] = ()
    """The new replicas of a reassignment under way."""
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    """The eligible leader replicas: no longer in sync, but with every committed record."""
    last_known_elr: tuple[int, ...] = ()
    is_recovering: bool = False
    """True if the leader was elected uncleanly."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the state of a ``PartitionRecord``."""
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
        """Return the state after a ``PartitionChangeRecord``. Missing fields keep their values."""
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
        """Return the fields of a ``PartitionRecord``, without topic and partition number."""
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
        """Return the directory id of the broker's replica, or UNASSIGNED if it has none."""
        return dict(zip(self.replicas, self.directories, strict=True)).get(broker_id, UNASSIGNED)

    def _directories_of(self, replicas: tuple[int, ...]) -> tuple[uuid.UUID, ...]:
        """Return the directories for a record without them (before metadata.version 17): remaining replicas keep
        theirs."""
        return self.directories if replicas == self.replicas else tuple(map(self.directory_of, replicas))


def _or(found: list[int] | None, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    return otherwise if found is None else tuple(found)


def _directories(texts: list[str] | None, replicas: int) -> tuple[uuid.UUID, ...]:
    return tuple(map(uuid_from_text, texts)) if texts else (MIGRATING,) * replicas
