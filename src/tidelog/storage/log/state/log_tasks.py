"""A log's background tasks: write its topic id, drop a leader epoch, flush after a roll, remove deleted files.

A new log is usable before its topic id is on the disk; the next task writes the id. A loaded log is usable before the
file of its leader epochs lacks one without records; the next task writes the file. A roll leaves the old segment
unsynced, so that the append need not wait for the disk; the next task flushes up to the new segment. Deleted files stay
for ``file.delete.delay.ms``, because readers may use them. Without a scheduler no task runs. A task ignores failures,
because the log's owner already has a report. It also ignores a closed log.
Thread rule: the caller holds the partition's lock; the scheduler runs the tasks without it.
Source: Kafka's ``UnifiedLog.initializeTopicId``, ``UnifiedLog.roll``, ``LocalLog.deleteSegmentFiles`` and
``LeaderEpochFileCache.truncateFromEndAsyncFlush``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from tidelog.model import ClosedError, StorageError
from tidelog.runtime import Scheduler


class LogTasks:
    """The tasks of one log, which provides the functions. ``flush`` flushes up to an offset."""

    def __init__(
        self,
        scheduler: Scheduler | None,
        flush: Callable[[int], object],
        remove_deleted: Callable[[], object],
        write_topic_id: Callable[[], object],
        write_epochs: Callable[[], object],
    ) -> None:
        self._scheduler = scheduler
        self._flush = flush
        self._remove_deleted = remove_deleted
        self._write_topic_id = write_topic_id
        self._write_epochs = write_epochs

    def after_topic_id(self) -> None:
        """Schedule the write of a new topic id."""
        self._schedule("flush-metadata-file", self._write_topic_id, 0)

    def after_dropped_epoch(self) -> None:
        """Schedule the write of the leader epochs after loading has dropped one without records."""
        self._schedule("leader-epoch-cache-flush", self._write_epochs, 0)

    def after_roll(self, base_offset: int) -> None:
        """Schedule a flush up to ``base_offset``, where the new active segment begins."""
        self._schedule("flush-log", lambda: self._flush(base_offset), 0)

    def after_deletion(self, delay_ms: int) -> None:
        """Schedule the removal of renamed files in ``delay_ms``."""
        self._schedule("delete-file", self._remove_deleted, delay_ms)

    def _schedule(self, name: str, task: Callable[[], object], delay_ms: int) -> None:
        if self._scheduler is None:
            return

        def run() -> None:
            with suppress(ClosedError, StorageError):
                task()

        self._scheduler.schedule(name, run, delay_ms=delay_ms)
