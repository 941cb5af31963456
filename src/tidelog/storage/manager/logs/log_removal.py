"""The removal of logs from service: from the table, the cleaner and the moves, with a rename.

=================  =================================================================================================
reason             its directory
=================  =================================================================================================
deleted            is renamed to ``-delete``, and removed after ``file.delete.delay.ms``
a stray            is renamed to ``-stray``, and never touched again
=================  =================================================================================================

A future log goes with the current one. The caller writes the checkpoints without the logs and syncs the new names, once
for many logs. Thread rule: the caller holds the manager's lock. Source: Kafka's ``LogManager.asyncDelete``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import nullcontext
from typing import NamedTuple

from tidelog.model import StorageError, TidelogError, TopicPartition
from tidelog.runtime import Clock
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.directory.directory_set import DirectorySet
from tidelog.storage.manager.directory.log_directory import LogDirectory
from tidelog.storage.manager.logs.cleaning import Cleaning
from tidelog.storage.manager.logs.log_table import LogTable
from tidelog.storage.manager.logs.moves import Moves


class RemovedLog(NamedTuple):
    log: PartitionLog
    directory: LogDirectory
    """The log directory of the log, where it still is under another name."""


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
        """Remove a log from service. Return None if there is none.

        Raise StorageError if it may be in an offline directory.
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
        directory = self._directories.directory_of(log)
        self.end_move(partition)
        with nullcontext() if is_future else self._cleaning.paused_for_deletion(partition, directory.path):
            if is_stray:
                self._table.set_aside(directory, partition, log)
            else:
                self._table.set_for_deletion(directory, partition, log, self._clock.now_ms(), syncs=False)
            del logs[partition]
        return RemovedLog(log, directory)

    def remove_all(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[Collection[LogDirectory], dict[TopicPartition, TidelogError]]:
        """Remove many logs. Return their log directories, and the errors by partition."""
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
        """Cancel the partition's move if there is one."""
        self._moves.cancel(partition)
        self._cleaning.resume_after_move(partition)
