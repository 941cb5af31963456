"""Queries by replicas about a log's leader epochs and its truncations.

Only ``take_truncation`` takes a lock: the others read immutable entries and one offset.
Thread rule: any thread. Source: Kafka's ``UnifiedLog.endOffsetForEpoch``, ``Partition.lastOffsetForLeaderEpoch``
(KIP-101, KIP-279, KIP-595).
"""

from __future__ import annotations

from threading import RLock

from tidelog.storage.epoch import EpochEndOffset, EpochEntry, FollowerTruncation, diverging_epoch, follower_truncation
from tidelog.storage.log.state.log_state import LogState


class LogEpochs:
    def __init__(self, state: LogState, lock: RLock) -> None:
        """The epoch queries of a log; ``lock`` is the log's."""
        self._state = state
        self._lock = lock

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return self._state.epochs.entries

    @property
    def latest(self) -> int | None:
        return self._state.epochs.latest_epoch

    def end_offset_for(self, epoch: int) -> EpochEndOffset | None:
        """Return the largest epoch not above ``epoch`` with its end offset, or None if it is unknown."""
        return self._state.epochs.end_offset_for(epoch, self._log_end)

    def diverging(self, last_fetched_epoch: int, fetch_offset: int) -> EpochEndOffset | None:
        """Return the point where a fetching follower's log diverges from this one; see ``leader_epoch_cache``."""
        return diverging_epoch(
            self._state.epochs,
            log_start=self._state.offsets.log_start,
            log_end=self._log_end,
            last_fetched_epoch=last_fetched_epoch,
            fetch_offset=fetch_offset,
        )

    def truncation_for(self, leader: EpochEndOffset) -> FollowerTruncation:
        """Return the point to which a follower truncates on its leader's response."""
        return follower_truncation(self._state.epochs, self._log_end, leader)

    def take_truncation(self) -> int | None:
        """Return the lowest offset of a truncation since the last call, or None if there was none."""
        with self._lock:
            return self._state.offsets.take_truncation()

    @property
    def _log_end(self) -> int:
        return self._state.offsets.log_end.message_offset
