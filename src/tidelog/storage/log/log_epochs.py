"""What replicas ask a log about its leader epochs, and where it was cut.

No lock, but for the cuts: it reads immutable entries and one offset.
Called by: whoever owns a PartitionLog, as ``log.epochs``. Any thread. Source: Kafka's ``UnifiedLog.endOffsetForEpoch``,
``Partition.lastOffsetForLeaderEpoch`` (KIP-101, KIP-279, KIP-595).
"""

from __future__ import annotations

from threading import RLock

from tidelog.storage.epoch import (
    EpochEndOffset,
    EpochEntry,
    FollowerTruncation,
    diverging_epoch,
    follower_truncation,
)
from tidelog.storage.log.log_state import LogState


class LogEpochs:
    def __init__(self, state: LogState, lock: RLock) -> None:
        """``lock``: the log's."""
        self._state = state
        self._lock = lock

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return self._state.epochs.entries

    @property
    def latest(self) -> int | None:
        return self._state.epochs.latest_epoch

    def of_offset(self, offset: int) -> int | None:
        """The epoch that a record at ``offset`` was written in."""
        return self._state.epochs.epoch_for_offset(offset)

    def end_offset_for(self, epoch: int) -> EpochEndOffset | None:
        """The largest epoch not above ``epoch`` and where it ends; None where it is not known."""
        return self._state.epochs.end_offset_for(epoch, self._log_end)

    def diverging(self, last_fetched_epoch: int, fetch_offset: int) -> EpochEndOffset | None:
        """As the leader of a fetch: where the follower's log parts from this one; see ``storage.epoch.divergence``."""
        return diverging_epoch(
            self._state.epochs,
            log_start=self._state.offsets.log_start,
            log_end=self._log_end,
            last_fetched_epoch=last_fetched_epoch,
            fetch_offset=fetch_offset,
        )

    def truncation_for(self, leader: EpochEndOffset) -> FollowerTruncation:
        """As a follower: where to cut on the leader's answer."""
        return follower_truncation(self._state.epochs, self._log_end, leader)

    def take_cut(self) -> int | None:
        """The lowest offset that the log was truncated at since this was last asked; None where it was not."""
        with self._lock:
            return self._state.offsets.take_cut()

    @property
    def _log_end(self) -> int:
        return self._state.offsets.log_end.message_offset
