"""The member that a group request claims to come from: the same four fields in several requests. Pure."""

from __future__ import annotations

from tidelog.protocol.schemas import Struct
from tidelog.server.groups.classic.syncing import MemberClaim


def claim_of(request: Struct, generation_id: int) -> MemberClaim:
    """Return the claim. The caller passes ``generation_id``, because the field's name differs between requests."""
    return MemberClaim(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation_id=generation_id,
    )
