"""The rules for clients that commit, fetch or delete a group's offsets. Pure: each check may raise.

Commits in a classic group:

==================================  ========================================================================
condition                           result
==================================  ========================================================================
no generation, the group is empty   allowed: a client that assigns its own partitions, or an administrator
no generation, members              UNKNOWN_MEMBER_ID (allowed in a transaction: its producer knows no group)
not a member                        UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID
another generation                  ILLEGAL_GENERATION
the leader has not assigned yet     REBALANCE_IN_PROGRESS (allowed in a transaction)
==================================  ========================================================================

In a consumer group the same holds without a generation. Other commits fail with UNKNOWN_MEMBER_ID if not from a member.
They fail with UNSUPPORTED_VERSION before v9, and STALE_MEMBER_EPOCH for a newer epoch (ILLEGAL_GENERATION if classic
or transactional). A commit with an older epoch may include partitions that the member had in that epoch
and still has, or is about to give up (KIP-1251).

In a streams group commits without a generation are allowed if it has no members. Other commits fail with
UNKNOWN_MEMBER_ID, because members cannot send heartbeats here. In a share group commits fail with GROUP_ID_NOT_FOUND.

Source: ``validateOffsetCommit``, ``validateOffsetFetch``, ``validateOffsetDelete`` of Kafka's ``ClassicGroup`` and
``ConsumerGroup``.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.groups.classic.member_requests import MemberClaim
from tidelog.server.groups.state.classic_group import NO_MEMBER, ClassicGroup, ClassicState
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.consumer_member import ConsumerMember
from tidelog.server.groups.state.group_map import Group
from tidelog.server.groups.state.unserved_group import UnservedGroup, UnservedType

_FIRST_VERSION_WITH_EPOCHS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitClaim:
    """The identity that a commit claims. ``version`` is the request's."""

    member: MemberClaim
    version: int
    is_transactional: bool = False


def check_commit(group: Group, claim: CommitClaim) -> ConsumerMember | None:
    """Raise ApiError by the table. Return the member of an older epoch, whose partitions ``check_older`` checks."""
    if isinstance(group, ConsumerGroup):
        return _check_consumer(group, claim)
    if isinstance(group, UnservedGroup):
        _check_has_offsets(group)
        if claim.member.generation_id < 0 and group.is_empty:
            return None
        raise _not_here(group, claim.member.member_id)
    error = _classic_error(group, claim)
    if error is not None:
        raise ApiError(error)
    return None


def check_older(member: ConsumerMember, claim: CommitClaim, place: tuple[uuid.UUID, int] | None) -> None:
    """Raise ApiError if the member did not have the partition in the claimed epoch, or has given it up."""
    epoch = None if place is None else member.assignment_epochs.get(place)
    if epoch is None or claim.member.generation_id < epoch:
        detail = "the partition is not the member's" if epoch is None else f"it got the partition in epoch {epoch}"
        raise _stale(f"The received member epoch is {claim.member.generation_id}: {detail}.", member, claim)


def check_fetch(group: Group, member_id: str | None, member_epoch: int) -> None:
    """Raise ApiError if the group is dead, or if the claimed member id or epoch is not the group's."""
    if isinstance(group, ClassicGroup):
        if group.state is ClassicState.DEAD:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is in dead state.")
    elif isinstance(group, UnservedGroup):
        if group.type is UnservedType.STREAMS and (member_id is not None or member_epoch >= 0):
            raise _not_here(group, member_id or NO_MEMBER)
    elif member_id is not None or member_epoch >= 0:
        member = group.member(member_id or NO_MEMBER)
        _check_epoch(member_epoch, member.member_epoch, is_classic=member.classic is not None)


def check_delete(group: Group) -> None:
    """Raise ApiError if the group is dead, a share group, or has members that are no consumers (unknown topics)."""
    if isinstance(group, ConsumerGroup):
        return
    if isinstance(group, UnservedGroup):
        _check_has_offsets(group)
        return
    if group.state is ClassicState.DEAD:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is in dead state.")
    if not group.is_empty and not group.uses_consumer_protocol:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def _check_has_offsets(group: UnservedGroup) -> None:
    if group.type is UnservedType.SHARE:
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is a share group, which commits no offsets."
        )


def _not_here(group: UnservedGroup, member_id: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def _classic_error(group: ClassicGroup, claim: CommitClaim) -> ErrorCode | None:
    member = claim.member
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if member.generation_id < 0 and group.is_empty:
        return None
    if member.generation_id >= 0 or member.member_id != NO_MEMBER or member.instance_id is not None:
        error = group.membership_error(member.member_id, member.instance_id)
        if error is None and member.generation_id != group.generation_id:
            error = ErrorCode.ILLEGAL_GENERATION
    else:
        error = None if claim.is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    is_assigning = group.state is ClassicState.COMPLETING_REBALANCE and not claim.is_transactional
    return ErrorCode.REBALANCE_IN_PROGRESS if error is None and is_assigning else error


def _check_consumer(group: ConsumerGroup, claim: CommitClaim) -> ConsumerMember | None:
    member_id, epoch = claim.member.member_id, claim.member.generation_id
    if epoch < 0 and group.is_empty:
        return None
    is_anonymous = member_id == NO_MEMBER and claim.member.instance_id is None and epoch == -1
    if claim.is_transactional and is_anonymous:
        return None
    member = group.member(member_id)
    is_classic = member.classic is not None
    if not claim.is_transactional and not is_classic and claim.version < _FIRST_VERSION_WITH_EPOCHS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
        )
    if epoch > member.member_epoch:
        raise _stale(f"The received member epoch {epoch} is newer than {member.member_epoch}.", member, claim)
    return None if epoch == member.member_epoch else member


def _stale(message: str, member: ConsumerMember, claim: CommitClaim) -> ApiError:
    is_classic = member.classic is not None or claim.is_transactional
    return ApiError(ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH, message)


def _check_epoch(received: int, expected: int, *, is_classic: bool) -> None:
    if received == expected:
        return
    if is_classic:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The received generation id {received} does not match the expected member epoch {expected}.",
        )
    raise ApiError(
        ErrorCode.STALE_MEMBER_EPOCH,
        f"The received member epoch {received} does not match the expected member epoch {expected}.",
    )
