"""The log of a replica as the cores read it. ``PartitionLog`` implements these protocols.

Every member is a pure read of memory: the cores never write, and never wait for a lock or the disk.
"""

from __future__ import annotations

from typing import Protocol

from tidelog.storage.epoch import EpochEndOffset, FollowerTruncation


class ReplicaEpochs(Protocol):
    """The leader epochs of the log."""

    @property
    def latest(self) -> int | None:
        """The epoch of the last batch, or None if no epoch is known."""
        ...

    def truncation_for(self, leader: EpochEndOffset, /) -> FollowerTruncation:
        """Return the truncation that the leader's diverging epoch requires."""
        ...


class ReplicaLog(Protocol):
    """The offsets and the epochs of the log."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def epochs(self) -> ReplicaEpochs: ...
