"""The values that a driver hands to a ``Follower``: the leader, and the partition's parts of responses."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.protocol.errors import ErrorCode
from tidelog.storage.epoch import EpochEndOffset

if TYPE_CHECKING:
    from typing_extensions import Buffer

NO_EPOCH = -1
"""The last fetched epoch of a log without leader epochs."""
NO_LEADER = -1
UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedLeader:
    """The partition's leader in the metadata. ``leader_id`` is -1 if there is none now."""

    leader_id: int
    leader_epoch: int
    topic_id: uuid.UUID | None = None
    """None if it is not known. It may become known later in the same epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPosition:
    """The fields of a Fetch request that belong to the follower. The driver returns them with the response."""

    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    """The epoch of the log's last batch, or -1 without one. The leader compares it with its own (KIP-595)."""
    log_start_offset: int

    def is_at(self, other: FetchPosition) -> bool:
        """Return True if both stand at the same end of the log. Retention may move the log start meanwhile."""
        return (self.offset, self.leader_epoch, self.last_fetched_epoch) == (
            other.offset,
            other.leader_epoch,
            other.last_fetched_epoch,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartition:
    """The partition's part of a Fetch response."""

    error_code: int = ErrorCode.NONE
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    """-1 in Fetch versions below 5."""
    diverging_epoch: EpochEndOffset | None = None
    """The leader's largest epoch up to the last fetched one, and its end. None if the logs agree."""
    records: Buffer | None = None
    """Bytes of batches; the last one may be partial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPartition:
    """The partition's part of a ListOffsets response."""

    error_code: int = ErrorCode.NONE
    offset: int = UNKNOWN_OFFSET
