"""A log's background tasks: write its topic id, flush after a roll, remove deleted files.

A new log is usable before its topic id is on the disk; the next task writes the id. A roll leaves the old segment
unsynced, so that the append need not wait for the disk; the next task flushes up to the new segment. Deleted files stay
for ``file.delete.delay.ms``, because readers may use them. Without a scheduler no task runs. A task ignores failures,
because the log's owner already has a report. It also ignores a closed log.
Thread rule: the caller holds the partition's lock; the scheduler runs the tasks without it.
Source: Kafka's ``UnifiedLog.initializeTopicId``, ``UnifiedLog.roll`` and ``LocalLog.deleteSegmentFiles``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.model import ClosedError, StorageError
from tidelog.runtime import Scheduler


class LogTasks:
    """The tasks of one log, which provides ``flush`` (up to an offset), ``remove_deleted`` and ``write_topic_id``."""

    def __init__(
        self,
        scheduler: Scheduler | None,
        flush: Callable[[int], object],
        remove_deleted: Callable[[], object],
        write_topic_id: Callable[[], object],
    ) -> None:
        self._scheduler = scheduler
        self._flush = flush
        self._remove_deleted = remove_deleted
        self._write_topic_id = write_topic_id

    def after_topic_id(self) -> None:
        """Schedule the write of a new topic id."""
        self._schedule("flush-metadata-file", self._write_topic_id, 0)

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
            try:
                task()
            except (ClosedError, StorageError):
                pass

        self._scheduler.schedule(name, run, delay_ms=delay_ms)
