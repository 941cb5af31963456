"""The moves of partitions between log directories that are in progress: their threads, and their end.

The scheduler's threads do the copying. Without a scheduler, the caller of ``run`` does it. A failed attempt is repeated
after a second. If a move is cancelled, the manager deletes its future log. Only one thread works on a move at a time,
and it never continues with a later move of the same partition.

A future log that has caught up replaces the current log at once, unless there is ``on_caught_up``. Then the move waits
for the call of ``end``, and copies the rest after it. A broker records the new log directory in the cluster metadata
meanwhile (KIP-858). A throttled move looks at the rate again every tenth of a second.

Thread rule: any thread. ``replace`` takes the manager's lock. Source: Kafka's ``ReplicaAlterLogDirsManager``,
``ReplicaAlterLogDirsThread``, ``LogManager.replaceCurrentWithFutureLog``.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from tidelog.model import ClosedError, TidelogError, TopicPartition
from tidelog.runtime import Clock, Scheduler
from tidelog.storage.manager.directory.directory_set import DirectorySet, level_of
from tidelog.storage.manager.logs.cleaning import Cleaning
from tidelog.storage.manager.logs.log_move import LogMove
from tidelog.storage.manager.logs.log_table import LogTable
from tidelog.storage.manager.logs.move_throttle import MoveThrottle

_BACKOFF_MS = 1000
_THROTTLED_MS = 100

OnCaughtUp = Callable[[TopicPartition, Path, Callable[[], None]], None]
"""Called with the partition, the new log directory, and ``end``, which lets the move end in any thread."""

_log = logging.getLogger(__name__)


class _Result(enum.Enum):
    REPLACED = "the future log has replaced the current one"
    CANCELLED = "the move was cancelled"
    WAITING = "the owner has not yet let the move end"
    THROTTLED = "the rate of moves is exceeded"


class Moves:
    def __init__(
        self,
        scheduler: Scheduler | None,
        replace: Callable[[TopicPartition, LogMove], bool],
        throttle: MoveThrottle,
        on_caught_up: OnCaughtUp | None = None,
    ) -> None:
        """``replace`` swaps in a future log that has caught up, unless the move was cancelled."""
        self._scheduler = scheduler
        self._replace = replace
        self._throttle = throttle
        self._on_caught_up = on_caught_up
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
        """Copy until the future log has replaced the current one. Return False if the move was cancelled, or waits."""
        move = self._moves.get(partition)
        return move is not None and self._run(partition, move) is _Result.REPLACED

    # --- inside ---

    def _run(self, partition: TopicPartition, move: LogMove) -> _Result:
        with move.lock:
            try:
                while self._is_under_way(partition, move):
                    if self._throttle.is_exceeded:
                        return _Result.THROTTLED
                    if self._copy(move):
                        if not self._may_end(partition, move):
                            return _Result.WAITING
                        return _Result.REPLACED if self._replace(partition, move) else _Result.CANCELLED
            except ClosedError:
                if self._is_under_way(partition, move):
                    raise
            return _Result.CANCELLED

    def _copy(self, move: LogMove) -> bool:
        before = move.copied_bytes
        has_caught_up = move.copy()
        self._throttle.record(move.copied_bytes - before)
        return has_caught_up

    def _may_end(self, partition: TopicPartition, move: LogMove) -> bool:
        """Return True if a move that has caught up may end. Call ``on_caught_up`` for the first time."""
        if self._on_caught_up is None:
            return True
        if not move.has_caught_up:
            move.has_caught_up = True
            self._on_caught_up(partition, move.future.directory.parent, lambda: self._end(partition, move))
        return move.may_end

    def _end(self, partition: TopicPartition, move: LogMove) -> None:
        move.may_end = True
        self._later(partition, move, 0)

    def _is_under_way(self, partition: TopicPartition, move: LogMove) -> bool:
        return self._moves.get(partition) is move

    def _later(self, partition: TopicPartition, move: LogMove, delay_ms: int) -> None:
        if self._scheduler is not None:
            self._scheduler.schedule("move-log", lambda: self._try(partition, move), delay_ms=delay_ms)

    def _try(self, partition: TopicPartition, move: LogMove) -> None:
        try:
            if self._run(partition, move) is _Result.THROTTLED:
                self._later(partition, move, _THROTTLED_MS)
        except TidelogError as error:
            if self._is_under_way(partition, move):
                text = "Moving %s to another log directory failed; it will be retried: %s"
                _log.log(level_of(error), text, partition, error)
                self._later(partition, move, _BACKOFF_MS)


class ReplicaSwap:
    """The end of a move: the future log replaces the current one.

    From then on the table, the cleaner and both log directories' checkpoints use the new log. The old directory is
    queued for removal. ``LogMove`` describes the states after a crash. Thread rule: the caller holds the manager's
    lock.
    """

    def __init__(
        self, directories: DirectorySet, table: LogTable, cleaning: Cleaning, moves: Moves, clock: Clock
    ) -> None:
        self._directories = directories
        self._table = table
        self._cleaning = cleaning
        self._moves = moves
        self._clock = clock

    def run(self, partition: TopicPartition, move: LogMove) -> bool:
        """Replace the current log. Return False if the move was cancelled."""
        if self._moves.under_way.get(partition) is not move:
            return False
        current, future = move.current, move.future
        source, target = self._directories.directory_of(current), self._directories.directory_of(future)
        with current.being_replaced():
            move.finish()
            future.rename(target.path / partition.directory_name)
        self._moves.cancel(partition)
        del self._table.future[partition]
        self._table.current[partition] = future
        self._cleaning.moved(partition, source.path, target.path)
        self._directories.run_guarded(target.checkpoint)
        now_ms = self._clock.now_ms()
        self._directories.run_guarded(lambda: self._table.set_for_deletion(source, partition, current, now_ms))
        self._directories.run_guarded(source.checkpoint)
        _log.info("%s has moved from %s to %s", partition, source.path, target.path)
        return True
