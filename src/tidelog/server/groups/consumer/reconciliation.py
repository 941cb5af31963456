"""The reconciliation step of a member from its current assignment to its target. A pure function.

=======================  ============================================  ============================================
state of the member      condition                                     step
=======================  ============================================  ============================================
STABLE                   its epoch is the target's                     none
STABLE                   its epoch is not the target's                 the next assignment, at its epoch
UNREVOKED_PARTITIONS     it still has partitions to give up            none
UNREVOKED_PARTITIONS     it gave them up                               the next assignment, at most one epoch later
UNRELEASED_PARTITIONS                                                  the next assignment, at its epoch
UNKNOWN                  it reports that it has no partitions          the next assignment, at the target's epoch
UNKNOWN                  it reports partitions, or omits them          FENCED_MEMBER_EPOCH
=======================  ============================================  ============================================

The next assignment, for a target *T* and the member's current assignment *H*:

1. If the member may still use partitions of *H* outside *T*, it keeps the common part and must give up the rest first
   (UNREVOKED_PARTITIONS).
2. Else it moves to the target's epoch with all partitions of *T* without another owner. Its state is STABLE, or
   UNRELEASED_PARTITIONS if it waits for partitions of other owners.

So no two members ever use the same partition: the new owner gets it only after the old owner reported that it gave it
up. Source: Kafka's ``CurrentAssignmentBuilder``; KIP-848.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.groups.state.consumer_member import NO_PARTITIONS, ConsumerMember, MemberState, Partitions

Owned = Mapping[uuid.UUID, frozenset[int]] | None
"""The partitions that a member reports. None if the heartbeat omits them."""
NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """``owner`` returns the member that has a partition, also if it is to give it up, or None."""

    epoch: int
    partitions: Partitions
    owner: Callable[[uuid.UUID, int], str | None]


def reconcile(member: ConsumerMember, target: Target, owned: Owned) -> ConsumerMember:
    """Return the member after the step, or the same object if there is no step."""
    if member.state is MemberState.STABLE:
        return member if member.member_epoch == target.epoch else _next(member, target, member.member_epoch, owned)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _has_any(owned, member.pending_revocation):
            return member
        return _next(member, target, min(member.member_epoch + 1, target.epoch), owned)
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return _next(member, target, member.member_epoch, owned)
    if owned is None or owned:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )
    return _next(member, target, target.epoch, owned)


def _next(member: ConsumerMember, target: Target, epoch: int, owned: Owned) -> ConsumerMember:
    kept: dict[uuid.UUID, frozenset[int]] = {}
    revoked: dict[uuid.UUID, frozenset[int]] = {}
    granted: dict[uuid.UUID, frozenset[int]] = {}
    waits = False
    for topic_id in {**target.partitions, **member.assigned}:
        wanted = target.partitions.get(topic_id, NOTHING)
        had = member.assigned.get(topic_id, NOTHING)
        new = wanted - had
        free = frozenset(number for number in new if target.owner(topic_id, number) in (None, member.member_id))
        waits = waits or free != new
        _put(kept, topic_id, wanted & had)
        _put(revoked, topic_id, had - wanted)
        _put(granted, topic_id, (wanted & had) | free)
    if revoked and _has_any(owned, revoked):
        return member.at_epoch(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked, granted_epoch=target.epoch)
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return member.at_epoch(target.epoch, state, granted, NO_PARTITIONS, granted_epoch=target.epoch)


def _put(partitions: dict[uuid.UUID, frozenset[int]], topic_id: uuid.UUID, numbers: frozenset[int]) -> None:
    if numbers:
        partitions[topic_id] = numbers


def _has_any(owned: Owned, partitions: Partitions) -> bool:
    """Return True if the member may still use one of ``partitions``. It may if it does not report its partitions."""
    if owned is None:
        return True
    return any(numbers & partitions.get(topic_id, NOTHING) for topic_id, numbers in owned.items())
