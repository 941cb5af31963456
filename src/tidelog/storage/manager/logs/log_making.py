"""The creation of a log: in the requested log directory, else in the one with the fewest logs.

=============================  =====================================================================================
request                        directories to try
=============================  =====================================================================================
``prefer``, for the partition  that one only; it applies to one log, and a future log needs it
a directory id                 that one if it is online, else as without a request
none                           each log directory that is not cordoned, the one with the fewest logs first; the
                               first one if all are cordoned (KIP-1066)
=============================  =====================================================================================

A log is never created where another log of the partition is. Names that lead elsewhere are refused, because they may
come from untrusted clients. If a disk fails during creation, its log directory goes offline and the next one is tried.
Thread rule: the caller holds the manager's lock. Source: Kafka's ``LogManager.getOrCreateLog``, ``nextLogDirs``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from pathlib import Path

from tidelog.model import StorageError, TopicPartition
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.directory.directory_set import DirectorySet
from tidelog.storage.manager.directory.log_directory import LogOpening
from tidelog.storage.manager.logs.log_table import LogTable, new_name
from tidelog.storage.manager.metadata.cluster_metadata_log import require_name
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName

_log = logging.getLogger(__name__)


class LogMaking:
    def __init__(
        self, directories: DirectorySet, table: LogTable, opening: LogOpening, handle_failures: Callable[[], None]
    ) -> None:
        self._directories = directories
        self._table = table
        self._opening = opening
        self._handle_failures = handle_failures
        self._preferred: dict[TopicPartition, Path] = {}

    def prefer(self, partition: TopicPartition, path: Path) -> None:
        """Choose the directory for the next log, as in the module's table. The call is a no-op if a log is there."""
        if path not in self._taken(partition):
            self._preferred[partition] = path

    def make(
        self,
        partition: TopicPartition,
        *,
        is_future: bool = False,
        topic_id: uuid.UUID | None = None,
        directory_id: uuid.UUID | None = None,
        syncs: bool = True,
    ) -> PartitionLog:
        """Create a log and add it to the table. With ``syncs`` the name of its directory is durable on return.

        Raise StorageError if no log directory accepts it, DirectoryError for a name that no partition can have.
        """
        require_name(partition)
        name = new_name(partition, DirectoryPurpose.FUTURE) if is_future else PartitionDirectoryName(partition)
        wanted = self._homes_for(partition, directory_id)
        if is_future and (partition not in self._preferred or not wanted):
            raise ValueError(f"a future log of {partition} needs a different log directory: call prefer() first")
        reason: StorageError | None = None
        for path in wanted:
            directory = self._directories.at(path)
            if directory is None:
                continue
            try:
                log = directory.open_log(path / str(name), name, self._opening, topic_id=topic_id, syncs_name=syncs)
            except StorageError as error:
                if not error.is_disk_failure:
                    raise
                self._directories.note_failure(error)
                self._handle_failures()
                reason = error
                continue
            self._table.of(is_future=is_future)[partition] = log
            if not is_future:
                self._table.lost.pop(partition, None)
            self._preferred.pop(partition, None)
            _log.info("Created log for partition %s in %s", partition, log.directory)
            return log
        tried = ", ".join(map(str, wanted)) + (f": {reason}" if reason else "")
        raise StorageError(f"No log directories available for {partition}. Tried {tried}") from reason

    def _homes_for(self, partition: TopicPartition, directory_id: uuid.UUID | None) -> list[Path]:
        """Return the directories to try, the best first. A log directory has at most one log of a partition."""
        wanted = None if directory_id is None else self._directories.with_id(directory_id)
        paths = self._directories.for_new_logs() if wanted is None else [wanted.path]
        paths = [self._preferred[partition]] if partition in self._preferred else paths
        taken = self._taken(partition)
        return [path for path in paths if path not in taken]

    def _taken(self, partition: TopicPartition) -> set[Path]:
        logs = (self._table.current.get(partition), self._table.future.get(partition))
        return {log.directory.parent for log in logs if log is not None}
