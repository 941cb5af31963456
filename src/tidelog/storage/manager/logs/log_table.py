"""The mapping of partitions to logs, other findings of a startup, and the rules for adding to them.

==============================  ====================================================================================
a loaded directory              effect
==============================  ====================================================================================
live                            serves its partition; a stray is set aside (``-stray``)
``-future``                     will replace the current log
``-delete``                     is queued for removal
that failed to load             ``damaged``, with the reason
of an offline log directory     ``lost``, with the reason
of a partition that has a log   set aside if both hold the same records (a crash between a move's two renames) or it
in another log directory        never had any (its disk failed at its creation); else an error, since only people can
                                decide which is right
==============================  ====================================================================================

Thread rule: changes need the manager's lock. Any thread may look up a log. Source: Kafka's ``LogManager.loadLog``,
``LogManager.deleteLogs``.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path

from tidelog.model import DirectoryError, StorageError, TidelogError, TopicPartition, UnknownTopicOrPartitionError
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.directory.directory_set import level_of
from tidelog.storage.manager.directory.log_directory import LogDirectory
from tidelog.storage.manager.logs.loading import LoadedPartition
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName

_log = logging.getLogger(__name__)


class LogTable:
    def __init__(self, is_stray: Callable[[PartitionLog], bool]) -> None:
        self._is_stray = is_stray
        self._homes: dict[Path, LogDirectory] = {}
        self.current: dict[TopicPartition, PartitionLog] = {}
        self.future: dict[TopicPartition, PartitionLog] = {}
        self.deleted = DeletionQueue()
        self.lost: dict[TopicPartition, StorageError] = {}
        """Partitions in offline directories."""
        self.damaged: dict[Path, TidelogError] = {}
        """Partition directories that failed to load."""
        self.strays: list[Path] = []
        """Directories set aside, in this run or before."""

    def of(self, *, is_future: bool) -> dict[TopicPartition, PartitionLog]:
        return self.future if is_future else self.current

    def require(self, partition: TopicPartition) -> PartitionLog:
        """Return the current log. Raise StorageError if it is offline, else UnknownTopicOrPartitionError."""
        log = self.current.get(partition)
        if log is not None:
            return log
        if partition in self.lost:
            raise StorageError(f"{partition} is offline: {self.lost[partition]}")
        raise UnknownTopicOrPartitionError(f"no partition '{partition}' here")

    def all(self) -> list[PartitionLog]:
        """Return the current and future logs."""
        return [*list(self.current.values()), *list(self.future.values())]

    def of_topic(self, topic: str) -> list[tuple[TopicPartition, PartitionLog]]:
        """Return the current and future logs of a topic."""
        logs = (self.current, self.future)
        return [(partition, log) for one in logs for partition, log in list(one.items()) if partition.topic == topic]

    def add_loaded(self, part: LoadedPartition) -> None:
        """Add a log from an online directory. Raise DirectoryError if its partition conflicts with another log."""
        partition, purpose, log = part.name.topic_partition, part.name.purpose, part.log
        self._homes[part.directory.path] = part.directory
        if log is None:
            assert part.error is not None
            self.damaged[part.path] = part.error
        elif purpose is DirectoryPurpose.DELETE:
            self.deleted.add(log, part.loaded_ms)
        elif purpose is DirectoryPurpose.FUTURE:
            self._put(self.future, partition, log)
        elif self._is_stray(log):
            self.set_aside(part.directory, partition, log)
        else:
            self._put(self.current, partition, log)

    def record_offline(self, part: LoadedPartition, error: StorageError) -> None:
        """Record a partition whose directory went offline while it was loaded."""
        if part.name.purpose is DirectoryPurpose.LIVE:
            self.lost[part.name.topic_partition] = error
        if part.log is not None:
            part.log.close_handlers(offline=error)

    def set_aside(self, directory: LogDirectory, partition: TopicPartition, log: PartitionLog) -> None:
        """Rename a stray, close it, and never touch it again."""
        log.rename(directory.path / str(new_name(partition, DirectoryPurpose.STRAY)))
        directory.forget(partition)
        log.close()
        self.strays.append(log.directory)
        _log.warning("Log for partition %s is marked as stray and renamed to %s", partition, log.directory)

    def set_for_deletion(
        self, directory: LogDirectory, partition: TopicPartition, log: PartitionLog, now_ms: int, *, syncs: bool = True
    ) -> None:
        """Rename a log, and queue it for removal. ``syncs`` has the meaning of ``PartitionLog.rename``."""
        log.rename(directory.path / str(new_name(partition, DirectoryPurpose.DELETE)), retires=True, syncs=syncs)
        directory.forget(partition)
        self.deleted.add(log, now_ms)
        _log.info("Log for partition %s is renamed to %s and is scheduled for deletion", partition, log.directory)

    def drop_directory(self, directory: LogDirectory, error: StorageError) -> None:
        """Stop serving the logs of a directory that went offline."""
        for partition in directory.go_offline(error):
            for logs in (self.current, self.future):
                log = logs.get(partition)
                if log is not None and log.directory.parent == directory.path:
                    if logs is self.current:
                        self.lost[partition] = (
                            error  # set first, so that ``require`` never reports an unknown partition
                        )
                    del logs[partition]
        self.deleted.drop_directory(directory.path, error)

    def _put(self, logs: dict[TopicPartition, PartitionLog], partition: TopicPartition, log: PartitionLog) -> None:
        other = logs.setdefault(partition, log)
        if other is log:
            return
        if _never_had_any(other, log):
            logs[partition], log = log, other
        elif not (_hold_the_same(other, log) or _never_had_any(log, other)):
            raise DirectoryError(
                f"Duplicate log directories for {partition} are found in both {other.directory} (up to offset"
                f" {other.end_offset}) and {log.directory} (up to offset {log.end_offset}). One may be a stale copy"
                " from a failed disk: move the older directory away, and start again"
            )
        _log.warning("%s has all records of %s; the latter is set aside", logs[partition].directory, log.directory)
        self.set_aside(self._homes[log.directory.parent], partition, log)


def new_name(partition: TopicPartition, purpose: DirectoryPurpose) -> PartitionDirectoryName:
    """Return a directory name that is not in use."""
    return PartitionDirectoryName.of(partition, purpose, uuid.uuid4().hex)


def _never_had_any(log: PartitionLog, other: PartitionLog) -> bool:
    """Return True if ``log`` never had records, and ``other`` is not another topic's log."""
    return log.end_offset == 0 and (log.topic_id in (None, other.topic_id) or other.topic_id is None)


def _hold_the_same(one: PartitionLog, other: PartitionLog) -> bool:
    """Return True if both logs have the same start, end and leader epochs."""
    return (one.log_start_offset, one.end_offset, one.epochs.entries) == (
        other.log_start_offset,
        other.end_offset,
        other.epochs.entries,
    )


class DeletionQueue:
    """Deleted logs that wait for ``file.delete.delay.ms``, because readers may still use their files.

    Their directories already have a ``-delete`` name, so the next startup finds them after a crash. A log that cannot
    be removed is reported and left for the next startup. Thread rule: any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, PartitionLog]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def logs(self) -> list[PartitionLog]:
        """The queued logs, the first deleted one first."""
        with self._lock:
            return [log for _, log in self._waiting]

    def add(self, log: PartitionLog, now_ms: int) -> None:
        """Queue a log. Its directory already has the ``-delete`` name."""
        with self._lock:
            self._waiting.append((now_ms, log))

    def drop_directory(self, directory: Path, error: StorageError) -> None:
        """Close the logs of a log directory that went offline."""
        with self._lock:
            gone = [log for _, log in self._waiting if log.directory.parent == directory]
            self._waiting = deque(entry for entry in self._waiting if entry[1].directory.parent != directory)
        for log in gone:
            log.close_handlers(offline=error)

    def remove_due(self, now_ms: int, delay_ms: int, on_failure: Callable[[StorageError], None]) -> int:
        """Remove the logs deleted at least ``delay_ms`` ago. Return the delay until the next call in ms."""
        while True:
            with self._lock:
                if not self._waiting:
                    return max(delay_ms, 1)
                since_ms, log = self._waiting[0]
                if since_ms + delay_ms > now_ms:
                    return since_ms + delay_ms - now_ms
                self._waiting.popleft()
            try:
                log.delete()
                _log.info("Deleted %s", log.directory)
            except StorageError as error:
                text = "%s could not be deleted; the next startup tries again: %s"
                _log.log(level_of(error), text, log.directory, error)
                on_failure(error)

    def close(self) -> None:
        """Close the files. The next startup finds the directories by their names."""
        for log in self.logs:
            log.close_handlers()
