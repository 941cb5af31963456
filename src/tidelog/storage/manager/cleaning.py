"""A manager's log cleaner, if it has one, and what it must not be at while something else is done to a log.

===========================  ========================================================================================
what is done                 what the cleaner does
===========================  ========================================================================================
a log is cut below its       lets go of it for as long; the rest of it is dirty from the new active segment on
active segment
it is deleted, or set aside  lets go of it and forgets how far it was compacted
it moves                     leaves it alone until it has moved or the move is called off, so that both logs have the
                             same records; the new one is compacted as far as the old one was
its topic is not compacted   lets go of it
any more
retention deletes from it    leaves it alone for as long, whatever its topic's policy becomes meanwhile; what is
                             compacted is the cleaner's to delete from too
its log directory's disk     writes nothing there any more
fails
===========================  ========================================================================================

Without a cleaner (``log.cleaner.enable=false``) nothing is waited for, and nobody deletes from compacted logs.
Called by: ``LogManager``, ``Housekeeping``. Thread rule: any thread that holds no log's lock, for the cleaner's threads
are waited for. Source: Kafka's ``LogManager``.
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
        """Without a cleaner."""
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
        """Have a cleaner for the logs in these log directories, which does nothing yet."""
        state = CleanerState(fs, paths, lambda: self._table.current, clock=clock, on_failure=on_failure)
        self.cleaner = LogCleaner(state, settings, clock=clock, on_failure=on_failure)

    def start(self) -> None:
        if self.cleaner is not None:
            self.cleaner.startup()

    def stop(self) -> None:
        """Idempotent."""
        if self.cleaner is not None:
            self.cleaner.shutdown()

    @property
    def _state(self) -> CleanerState | None:
        return None if self.cleaner is None else self.cleaner.state

    # --- while something is done to a log ---

    @contextmanager
    def cut(self, partition: TopicPartition, log: PartitionLog, offset: int | None = None) -> Iterator[None]:
        """While it is cut at ``offset``; None: emptied."""
        state = self._state
        is_current = self._table.current.get(partition) is log
        if state is None or not is_current or (offset is not None and offset >= log.base_offsets[-1]):
            yield
            return
        with state.paused(partition):
            yield
            state.truncate(log.directory.parent, partition, log.base_offsets[-1])

    @contextmanager
    def deletion(self, partition: TopicPartition, path: Path) -> Iterator[None]:
        """While the current log leaves the log directory ``path``, and the table."""
        state = self._state
        if state is None:
            yield
            return
        with state.paused(partition):
            yield
            state.forget(path, partition)

    def moves(self, partition: TopicPartition) -> None:
        """A move of the partition begins; idempotent."""
        if self._state is not None and partition not in self._moving:
            self._state.pause(partition)
            self._moving.add(partition)

    def moves_no_more(self, partition: TopicPartition) -> None:
        """Nothing where no move has begun."""
        if self._state is not None and partition in self._moving:
            self._moving.remove(partition)
            self._state.resume(partition)

    def moved(self, partition: TopicPartition, source: Path, target: Path) -> None:
        """The new log has taken the old one's place."""
        if self._state is not None:
            self._state.move(partition, source, target)
        self.moves_no_more(partition)

    def abort(self, partition: TopicPartition) -> None:
        """Return when nobody is at it."""
        if self._state is not None:
            with self._state.paused(partition):
                _log.info("The cleaning for partition %s is aborted", partition)

    def lose(self, path: Path) -> None:
        """The disk under a log directory has failed."""
        if self._state is not None:
            self._state.lose(path)

    def logs_for_retention(self) -> Iterator[PartitionLog]:
        """Those that are not compacted, a future one behind the current one; the cleaner leaves the partition alone
        until the next is asked for."""
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
