"""Who a request of a group says it comes from: the same four fields in all of them.

Called by: Heartbeat, SyncGroup, OffsetCommit, TxnOffsetCommit. Pure.
"""

from __future__ import annotations

from tidelog.protocol.schemas import Struct
from tidelog.server.groups.classic.syncing import MemberClaim


def claim_of(request: Struct, generation_id: int) -> MemberClaim:
    """``generation_id``: as the request has it, by whichever name."""
    return MemberClaim(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation_id=generation_id,
    )
