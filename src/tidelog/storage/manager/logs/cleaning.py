"""A manager's optional log cleaner, and its coordination with other changes of a log.

===========================  ========================================================================================
change                       effect on the cleaner
===========================  ========================================================================================
truncation of a log below    pauses for the log meanwhile; its compacted end is at most the base offset of the new
its active segment           active segment from then on
deletion, or setting aside   pauses for the log meanwhile, and drops its checkpoint entry
a move                       pauses for the log until the move ends or is cancelled, so that both logs have the same
                             records; the new log takes over the compacted end of the old one
the topic is no longer       aborts the cleaning of the log
compacted
retention deletes from it    pauses for the log meanwhile, even if its topic becomes compacted; the cleaner itself
                             deletes from compacted logs
a log directory's disk       writes nothing there any longer
fails
===========================  ========================================================================================

Without a cleaner (``log.cleaner.enable=false``) there is nothing to wait for, and nothing deletes from compacted logs.
Thread rule: any thread that holds no log's lock, because calls wait for the cleaner's threads. Source: Kafka's
``LogManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidelog.model import StorageError, TopicPartition
from tidelog.runtime import Clock
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.cleaner.pool.cleaner_state import CleanerState
from tidelog.storage.cleaner.pool.log_cleaner import LogCleaner
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.logs.log_table import LogTable

_log = logging.getLogger(__name__)


class Cleaning:
    def __init__(self, table: LogTable) -> None:
        """The cleaner is None before ``open``."""
        self._table = table
        self._moving: set[TopicPartition] = set()
        self.cleaner: LogCleaner | None = None

    def open(
        self,
        fs: FileSystem,
        paths: list[Path],
        settings: CleanerSettings,
        *,
        clock: Clock,
        on_failure: Callable[[StorageError], None],
    ) -> None:
        """Create a cleaner for the logs in these log directories, without starting it."""
        state = CleanerState(fs, paths, lambda: self._table.current, clock=clock, on_failure=on_failure)
        self.cleaner = LogCleaner(state, settings, clock=clock, on_failure=on_failure)

    def start(self) -> None:
        if self.cleaner is not None:
            self.cleaner.startup()

    def stop(self) -> None:
        """Stop the cleaner. The call is idempotent."""
        if self.cleaner is not None:
            self.cleaner.shutdown()

    @property
    def _state(self) -> CleanerState | None:
        return None if self.cleaner is None else self.cleaner.state

    # --- changes of a log ---

    @contextmanager
    def paused_for_truncation(
        self, partition: TopicPartition, log: PartitionLog, offset: int | None = None
    ) -> Iterator[None]:
        """Pause the cleaner for a log while the caller truncates it to ``offset``, or empties it (None)."""
        state = self._state
        is_current = self._table.current.get(partition) is log
        if state is None or not is_current or (offset is not None and offset >= log.base_offsets[-1]):
            yield
            return
        with state.paused(partition):
            yield
            state.truncate(log.directory.parent, partition, log.base_offsets[-1])

    @contextmanager
    def paused_for_deletion(self, partition: TopicPartition, path: Path) -> Iterator[None]:
        """Pause the cleaner while the current log is removed from the log directory ``path`` and the table."""
        state = self._state
        if state is None:
            yield
            return
        with state.paused(partition):
            yield
            state.forget(path, partition)

    def pause_for_move(self, partition: TopicPartition) -> None:
        """Pause the cleaner for a partition whose move starts. The call is idempotent."""
        if self._state is not None and partition not in self._moving:
            self._state.pause(partition)
            self._moving.add(partition)

    def resume_after_move(self, partition: TopicPartition) -> None:
        """Resume the cleaner for the partition. The call is a no-op if no move has started."""
        if self._state is not None and partition in self._moving:
            self._moving.remove(partition)
            self._state.resume(partition)

    def moved(self, partition: TopicPartition, source: Path, target: Path) -> None:
        """Carry over the checkpoint to the new log, and resume the cleaner."""
        if self._state is not None:
            self._state.move(partition, source, target)
        self.resume_after_move(partition)

    def abort(self, partition: TopicPartition) -> None:
        """Abort a cleaning of the partition, and return after it has stopped."""
        if self._state is not None:
            with self._state.paused(partition):
                _log.info("The cleaning for partition %s is aborted", partition)

    def drop_directory(self, path: Path) -> None:
        """Stop writing to a log directory whose disk has failed."""
        if self._state is not None:
            self._state.drop_log_directory(path)

    def logs_for_retention(self) -> Iterator[PartitionLog]:
        """Yield the logs to delete from, current before future. The cleaner pauses for each until the next one."""
        for partition, log in list(self._table.current.items()):
            if log.config.is_compacted or (self._state and not self._state.pause_unless_compacted(partition)):
                continue
            try:
                yield log
                if partition in self._table.future:
                    yield self._table.future[partition]
            finally:
                if self._state is not None:
                    self._state.resume(partition)
