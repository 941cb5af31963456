"""The messages between a partition's leader and the controller about in-sync replicas, as values."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.protocol.errors import ErrorCode

RECOVERED = 0
"""The leader recovery state of a proposal: a leader recovers as soon as it leads (KIP-704)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedPartition:
    """The partition in the metadata, whose leader is this broker."""

    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrMember:
    broker_id: int
    broker_epoch: int = -1
    """The epoch in the broker's last fetch. The controller refuses another one than its own; -1 is not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """The fields of an AlterPartition request for one partition. The driver returns it with the response."""

    number: int
    """A number that makes every proposal of a partition unique. A retry has the same one."""
    leader_epoch: int
    partition_epoch: int
    isr: tuple[IsrMember, ...]
    leader_recovery_state: int = RECOVERED

    @property
    def broker_ids(self) -> frozenset[int]:
        return frozenset(member.broker_id for member in self.isr)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredPartition:
    """The partition's part of an AlterPartition response. The other fields count only without an error."""

    error_code: int = ErrorCode.NONE
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
