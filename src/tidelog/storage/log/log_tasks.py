"""What a log leaves for later: writing its topic id, the flush after a roll, the removal of deleted files.

A new log is used before its topic id is on the disk; the next task writes it. A roll leaves the segment behind it
unsynced, so that the append need not wait for the disk; the next task flushes up to the new segment. Deleted files stay
for ``file.delete.delay.ms``, for readers who are in them. Without a scheduler nothing is done later.
A failure was reported to the log's owner by then, and a log may be closed before its tasks run: neither is an error
here. Called by: ``PartitionLog``, ``log_state`` (under the log's lock); the tasks by the scheduler. Source: Kafka's
``UnifiedLog.initializeTopicId``, ``UnifiedLog.roll`` and ``LocalLog.deleteSegmentFiles``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.model import ClosedError, StorageError
from tidelog.runtime import Scheduler


class LogTasks:
    """``flush`` up to an offset, ``remove_deleted`` and ``write_topic_id`` are the log's."""

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
        """The log has a topic id that is not on the disk yet."""
        self._later("flush-metadata-file", self._write_topic_id, 0)

    def after_roll(self, base_offset: int) -> None:
        """A segment that begins at ``base_offset`` is the active one now."""
        self._later("flush-log", lambda: self._flush(base_offset), 0)

    def after_deletion(self, delay_ms: int) -> None:
        """Files were renamed, and may go in ``delay_ms``."""
        self._later("delete-file", self._remove_deleted, delay_ms)

    def _later(self, name: str, task: Callable[[], object], delay_ms: int) -> None:
        if self._scheduler is None:
            return

        def run() -> None:
            try:
                task()
            except (ClosedError, StorageError):
                pass

        self._scheduler.schedule(name, run, delay_ms=delay_ms)
