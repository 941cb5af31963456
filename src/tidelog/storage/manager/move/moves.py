"""The moves of partitions between log directories that are in progress, and their threads.

The scheduler's threads do the copying. Without a scheduler, the caller of ``run`` does it. A failed attempt is repeated
after a second. Forgetting a move cancels it, and the manager then deletes its future log. Only one thread works on a
move at a time, and it never continues with a later move of the same partition. Thread rule: any thread. ``replace``
takes the manager's lock. Source: Kafka's ``ReplicaAlterLogDirsManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from tidelog.model import ClosedError, TidelogError, TopicPartition
from tidelog.runtime import Scheduler
from tidelog.storage.manager.directory.directory_set import level_of
from tidelog.storage.manager.move.log_move import LogMove

_BACKOFF_MS = 1000

_log = logging.getLogger(__name__)


class Moves:
    def __init__(self, scheduler: Scheduler | None, replace: Callable[[TopicPartition, LogMove], bool]) -> None:
        """``replace`` swaps in a future log that has caught up, unless the move was cancelled."""
        self._scheduler = scheduler
        self._replace = replace
        self._moves: dict[TopicPartition, LogMove] = {}

    @property
    def under_way(self) -> Mapping[TopicPartition, LogMove]:
        return self._moves

    def begin(self, partition: TopicPartition, move: LogMove) -> None:
        move.begin()
        self._moves[partition] = move
        self._later(partition, move, 0)

    def cancel(self, partition: TopicPartition) -> None:
        self._moves.pop(partition, None)

    def stop(self) -> None:
        """Forget all moves. The next startup continues them."""
        self._moves.clear()

    def run(self, partition: TopicPartition) -> bool:
        """Copy until the future log has replaced the current one. Return False if the move was cancelled."""
        move = self._moves.get(partition)
        return move is not None and self._run(partition, move)

    # --- inside ---

    def _run(self, partition: TopicPartition, move: LogMove) -> bool:
        with move.lock:
            try:
                while self._is_under_way(partition, move):
                    if move.copy():
                        return self._replace(partition, move)
            except ClosedError:
                if self._is_under_way(partition, move):
                    raise
            return False

    def _is_under_way(self, partition: TopicPartition, move: LogMove) -> bool:
        return self._moves.get(partition) is move

    def _later(self, partition: TopicPartition, move: LogMove, delay_ms: int) -> None:
        if self._scheduler is not None:
            self._scheduler.schedule("move-log", lambda: self._try(partition, move), delay_ms=delay_ms)

    def _try(self, partition: TopicPartition, move: LogMove) -> None:
        try:
            self._run(partition, move)
        except TidelogError as error:
            if self._is_under_way(partition, move):
                text = "Moving %s to another log directory failed; it will be retried: %s"
                _log.log(level_of(error), text, partition, error)
                self._later(partition, move, _BACKOFF_MS)
