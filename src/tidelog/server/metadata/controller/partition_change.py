"""The builder of partition changes: in-sync replicas, leader and assignment, as one record.

The steps run in this sequence:

============================  ===================================================================================
reassignment                  completes once every remaining replica is in sync
eligible leaders (KIP-966)    replicas that leave the ISR are kept as eligible while it is below ``min_isr``
leader                        stays if it may; otherwise the first in-sync replica that may lead; with an empty
                              ISR the first eligible replica, then the last known leader; in an unclean election
                              any live replica
leader epoch                  also grows if a replica leaves the assignment
in-sync replicas              written if changed; they may be empty only if eligible leaders are kept
directories, recovery state   written if changed
============================  ===================================================================================

Pure. Source: Kafka's ``PartitionChangeBuilder``.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.server.metadata.features import DIRECTORIES_SINCE
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import NO_LEADER, RECOVERED, RECOVERING, PartitionState
from tidelog.storage.checkpoint import uuid_to_text

_EPOCH_GROWS_WITH_ISR_SHRINK_BELOW = 12
"""The metadata.version 3.6-IV0."""


class Election(enum.Enum):
    """The kind of leader election."""

    ONLINE = enum.auto()
    """Keep the leader, or elect an in-sync replica."""
    PREFERRED = enum.auto()
    """Elect the first replica if it is in sync."""
    UNCLEAN = enum.auto()
    """Elect any live replica rather than none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRules:
    """The rules for a partition, independent of the wanted change."""

    min_isr: int
    may_lead: Callable[[int], bool]
    """A function that returns True if the broker is alive and its replica's log directory is online."""
    default_directory: Callable[[int], uuid.UUID]
    """A function that returns the directory id for a broker's new replica."""
    keeps_eligible: bool
    """True if the feature ``eligible.leader.replicas.version`` is enabled."""
    metadata_version: int
    election: Election = Election.ONLINE


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReplicas:
    """The wanted change. A field of None stays as it is."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    directories: Mapping[int, uuid.UUID] = field(default_factory=dict)
    """The new log directory ids by broker."""
    is_recovering: bool | None = None
    unclean: frozenset[int] = frozenset()
    """Brokers after an unclean shutdown: they may have lost records."""


def change_partition(
    topic_id: uuid.UUID, number: int, state: PartitionState, wanted: TargetReplicas, rules: ElectionRules
) -> MetadataRecord | None:
    """Return the ``PartitionChangeRecord``, or None if nothing changes."""
    fields = _Change(state, wanted, rules).fields()
    if not fields:
        return None
    return MetadataRecord("PartitionChangeRecord", {"partitionId": number, "topicId": uuid_to_text(topic_id), **fields})


class _Change:
    """A change while it is built."""

    def __init__(self, state: PartitionState, wanted: TargetReplicas, rules: ElectionRules) -> None:
        self._state, self._wanted, self._rules = state, wanted, rules
        self._isr = _or(wanted.isr, state.isr)
        self._replicas = _or(wanted.replicas, state.replicas)
        self._adding = _or(wanted.adding, state.adding)
        self._removing = _or(wanted.removing, state.removing)
        self._elr = state.elr
        self._found: dict[str, Any] = {}

    def fields(self) -> dict[str, Any]:
        """Return the fields of the record that change the partition."""
        self._complete_reassignment()
        self._remember_eligible()
        self._elect()
        self._grow_epoch_of_removal()
        self._write_eligible()
        self._write_isr()
        self._write_last_known_leader()
        self._write_assignment()
        recovering = self._wanted.is_recovering
        if recovering is not None and recovering != self._state.is_recovering:
            self._found["leaderRecoveryState"] = RECOVERING if recovering else RECOVERED
        return self._found

    def _complete_reassignment(self) -> None:
        if not (self._adding or self._removing):
            return
        isr = tuple(broker for broker in self._isr if broker not in self._removing)
        replicas = tuple(broker for broker in self._replicas if broker not in self._removing)
        if isr and replicas and set(replicas) <= set(isr):
            self._isr, self._replicas, self._adding, self._removing = isr, replicas, (), ()

    def _remember_eligible(self) -> None:
        if not self._rules.keeps_eligible:
            return
        if len(self._isr) >= self._rules.min_isr:
            self._elr = ()
        else:
            gone = {*self._isr, *self._wanted.unclean}
            # Kafka keeps a broker that is no replica any longer. If it is assigned again, it has lost its records.
            self._elr = tuple(sorted(({*self._elr, *self._state.isr} - gone) & {*self._replicas}))

    def _elect(self) -> None:
        leader, is_clean = self._choose()
        if leader == self._state.leader:
            return
        if leader in self._elr:
            self._isr = (leader,)
            self._elr = tuple(broker for broker in self._elr if broker != leader)
        self._found["leader"] = leader
        if not is_clean:
            self._found["isr"] = [leader]
            if not self._state.is_recovering:
                self._found["leaderRecoveryState"] = RECOVERING

    def _choose(self) -> tuple[int, bool]:
        """Return the leader, and True unless it was elected uncleanly."""
        present, first = self._state.leader, self._replicas[0]
        prefers = self._rules.election is Election.PREFERRED
        candidates = (*((first,) if prefers else ()), present, *self._replicas)
        leader = next((broker for broker in candidates if self._may_lead_cleanly(broker)), None)
        if leader is not None:
            return leader, True
        if self._may_elect_last_known():
            return self._state.last_known_elr[0], False
        if self._rules.election is Election.UNCLEAN:
            alive = next((broker for broker in self._replicas if self._rules.may_lead(broker)), None)
            if alive is not None:
                return alive, False
        return NO_LEADER, True

    def _may_lead_cleanly(self, broker: int) -> bool:
        eligible = self._isr or self._elr
        return broker in eligible and self._rules.may_lead(broker)

    def _may_elect_last_known(self) -> bool:
        return (
            self._rules.keeps_eligible
            and not self._elr
            and not self._isr
            and len(self._state.last_known_elr) == 1
            and self._rules.may_lead(self._state.last_known_elr[0])
        )

    def _grow_epoch_of_removal(self) -> None:
        if "leader" not in self._found and not set(self._state.replicas) <= set(self._replicas):
            self._found["leader"] = self._state.leader

    def _write_eligible(self) -> None:
        if "isr" in self._found or not self._rules.keeps_eligible:
            self._elr = ()
        if self._elr != self._state.elr:
            self._found["eligibleLeaderReplicas"] = list(self._elr)

    def _write_isr(self) -> None:
        if "isr" not in self._found and (self._isr or self._rules.keeps_eligible) and self._isr != self._state.isr:
            self._found["isr"] = list(self._isr)
        shrinks = "isr" in self._found and not set(self._state.isr) <= set(self._found["isr"])
        if shrinks and self._rules.metadata_version < _EPOCH_GROWS_WITH_ISR_SHRINK_BELOW:
            self._found.setdefault("leader", self._state.leader)

    def _write_last_known_leader(self) -> None:
        if not self._rules.keeps_eligible:
            return
        before, known = self._state.leader, self._state.last_known_elr
        after = self._found.get("leader", before)
        if self._found.get("isr") == [] and known != (before,):
            self._found["lastKnownElr"] = [before]
        elif after != NO_LEADER and known:
            self._found["lastKnownElr"] = []

    def _write_assignment(self) -> None:
        if self._rules.metadata_version >= DIRECTORIES_SINCE:
            known = dict(zip(self._state.replicas, self._state.directories, strict=True)) | dict(
                self._wanted.directories
            )
            directories = tuple(
                known[broker] if broker in known else self._rules.default_directory(broker) for broker in self._replicas
            )
            if directories != self._state.directories:
                self._found["directories"] = list(map(uuid_to_text, directories))
        for name, before, after in (
            ("replicas", self._state.replicas, self._replicas),
            ("removingReplicas", self._state.removing, self._removing),
            ("addingReplicas", self._state.adding, self._adding),
        ):
            if after != before:
                self._found[name] = list(after)


def _or(found: tuple[int, ...] | None, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    return otherwise if found is None else found
