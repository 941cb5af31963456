"""The end of a move: the future log replaces the current one.

From then on the table, the cleaner and both log directories' checkpoints use the new log. The old directory is queued
for removal. ``LogMove`` describes the states after a crash. Thread rule: the caller holds the manager's lock. Source:
Kafka's ``LogManager.replaceCurrentWithFutureLog``.
"""

from __future__ import annotations

import logging

from tidelog.model import TopicPartition
from tidelog.runtime import Clock
from tidelog.storage.manager.cleaning import Cleaning
from tidelog.storage.manager.directory.directory_set import DirectorySet
from tidelog.storage.manager.logs.log_table import LogTable
from tidelog.storage.manager.move.log_move import LogMove
from tidelog.storage.manager.move.moves import Moves

_log = logging.getLogger(__name__)


class ReplicaSwap:
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
