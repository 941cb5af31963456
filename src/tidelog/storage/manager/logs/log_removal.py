"""How a log leaves service: out of the table, away from cleaner and moves, its directory renamed.

=================  =================================================================================================
it is              its directory
=================  =================================================================================================
deleted            is named ``-delete``, and removed after ``file.delete.delay.ms``
a stray            is named ``-stray``, and left alone for good
=================  =================================================================================================

A future log goes with the current one. What is left to whoever calls, once for many logs: checkpoints that speak of
them no more, and the new names on the disk.
Called by: ``LogManager``, under its lock. Source: Kafka's ``LogManager.asyncDelete``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import nullcontext
from typing import NamedTuple

from tidelog.model import StorageError, TidelogError, TopicPartition
from tidelog.runtime import Clock
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.cleaning import Cleaning
from tidelog.storage.manager.directory.directory_set import DirectorySet
from tidelog.storage.manager.directory.log_directory import LogDirectory
from tidelog.storage.manager.logs.log_table import LogTable
from tidelog.storage.manager.move.moves import Moves


class RemovedLog(NamedTuple):
    log: PartitionLog
    directory: LogDirectory
    """Where it lay, and still lies under another name."""


class LogRemoval:
    def __init__(
        self, directories: DirectorySet, table: LogTable, cleaning: Cleaning, moves: Moves, clock: Clock
    ) -> None:
        self._directories = directories
        self._table = table
        self._cleaning = cleaning
        self._moves = moves
        self._clock = clock

    def remove(
        self, partition: TopicPartition, *, is_future: bool = False, is_stray: bool = False
    ) -> RemovedLog | None:
        """None where there is no such log.

        StorageError where it may lie in a directory that is offline.
        """
        if not is_future and partition in self._table.future:
            self.remove(partition, is_future=True)
        logs = self._table.of(is_future=is_future)
        log = logs.get(partition)
        if log is None:
            if self._directories.offline:
                raise StorageError(
                    f"Failed to delete log for {partition}: it may lie in one of the log directories that are"
                    f" offline, {self._directories.offline_text}"
                )
            return None
        directory = self._directories.home_of(log)
        self.end_move(partition)
        with nullcontext() if is_future else self._cleaning.deletion(partition, directory.path):
            if is_stray:
                self._table.set_aside(directory, partition, log)
            else:
                self._table.set_for_deletion(directory, partition, log, self._clock.now_ms(), syncs=False)
            del logs[partition]
        return RemovedLog(log, directory)

    def remove_all(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[Collection[LogDirectory], dict[TopicPartition, TidelogError]]:
        """Where they lay, and what went wrong."""
        directories: dict[LogDirectory, None] = {}
        errors: dict[TopicPartition, TidelogError] = {}
        for partition in partitions:
            try:
                removed = self.remove(partition)
            except TidelogError as error:
                errors[partition] = error
            else:
                if removed is not None:
                    directories[removed.directory] = None
        return directories.keys(), errors

    def end_move(self, partition: TopicPartition) -> None:
        """Call it off, if there is one."""
        self._moves.forget(partition)
        self._cleaning.moves_no_more(partition)
