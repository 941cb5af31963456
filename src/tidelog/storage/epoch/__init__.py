"""The leader epochs of a partition and their checkpoint."""

from tidelog.storage.epoch.leader_epoch_cache import (
    EpochEndOffset,
    EpochEntry,
    FollowerTruncation,
    LeaderEpochCache,
    diverging_epoch,
    follower_truncation,
    with_records,
)
from tidelog.storage.epoch.leader_epoch_file import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint

__all__ = [
    "LEADER_EPOCH_CHECKPOINT",
    "EpochEndOffset",
    "EpochEntry",
    "FollowerTruncation",
    "LeaderEpochCache",
    "LeaderEpochCheckpoint",
    "diverging_epoch",
    "follower_truncation",
    "with_records",
]
