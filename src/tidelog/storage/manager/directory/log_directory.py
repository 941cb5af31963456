"""A log directory opened for writing: its open logs, its id, and when its marker and checkpoints are written.

``OwnedDirectory`` has the lock and these files. State machine:

====================  =============================================================================================
opened                the lock is taken; marker, checkpoints and ``meta.properties`` are read
``mark_open``         the marker and unfinished small files are removed; a later crash is an unclean shutdown
a log is opened       loaded as after a clean shutdown if the marker existed, else recovered from its recovery point
``checkpoint``        recovery points, log starts and high watermarks are written
``stop``              checkpoints are written; then the marker, if every log was closed cleanly, and if the marker had
                      existed or every partition was opened (and so recovered) here; the lock is released last
``go_offline``        the disk failed: logs are closed, nothing more is written, the lock is released
====================  =============================================================================================

Checkpoint entries of partitions that were not opened do not change. A crash leaves no marker, and checkpoints that lag
behind; loading handles both. Thread rule: any thread. The directory's owner must open each partition only once. Source:
Kafka's ``LogManager``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model import CheckpointError, StorageError, TidelogError, TopicPartition
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.storage.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT,
    MetaProperties,
)
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.load.listing import PartitionListing
from tidelog.storage.log.load.open_request import LogContext
from tidelog.storage.log.load.parallel_walks import WalkThreads
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState
from tidelog.storage.log.view.partitions import live_partitions
from tidelog.storage.manager.directory.owned_directory import OwnedDirectory
from tidelog.storage.producer import ProducerEntry
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName
from tidelog.storage.segment.segment_recovery import RecoveredSegment

if TYPE_CHECKING:
    from tidelog.storage.log.view.log_view import LogView


_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LogOpening(LogContext):
    """The values shared by all logs of one owner when they are opened."""

    config_of: Callable[[str], LogConfig]
    """The current settings of a topic."""


class LogDirectory:
    def __init__(self, fs: FileSystem, path: Path) -> None:
        """Open and lock the directory, and create it if missing. LockedError means that another process holds it."""
        if not fs.exists(path):
            fs.make_dir(path)
            fs.sync_dir(path.absolute().parent)
        self._fs = fs
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        """The current and future logs. A partition has one log per directory."""
        self.failure: StorageError | None = None
        """The reason why the directory is offline."""
        self._clean_partitions: set[TopicPartition] = set()
        self._files = OwnedDirectory(fs, path)
        self.was_clean = self._files.was_clean
        self.broker_epoch = self._files.broker_epoch
        self.mark_open = self._files.mark_open
        for warning in self._files.warnings:
            _log.warning("%s", warning)
        try:
            self._properties = self._read_properties()
        except BaseException:
            self._files.release()
            raise

    @property
    def is_online(self) -> bool:
        return self.failure is None

    @property
    def id(self) -> uuid.UUID | None:
        """The id in ``meta.properties``. None if the file or its id is missing (before 3.7)."""
        return None if self._properties is None else self._properties.directory_id

    @property
    def node_id(self) -> int | None:
        return None if self._properties is None else self._properties.node_id

    # --- logs ---

    def open_log(
        self,
        path: Path,
        name: PartitionDirectoryName,
        opening: LogOpening,
        *,
        topic_id: uuid.UUID | None = None,
        syncs_name: bool = True,
        threads: WalkThreads | None = None,
        on_segment: Callable[[RecoveredSegment], None] | None = None,
        listing: PartitionListing | None = None,
    ) -> PartitionLog:
        """Load a partition directory in this one, create it if missing, and add its log to ``logs``.

        ``name`` is the parsed name of ``path``. ``syncs_name`` is as in ``OpenRequest``, and the later parameters are
        as in ``LoadRequest``. A log in a ``-delete`` directory is not added: it belongs to the caller. Loading warnings
        are logged.
        """
        partition, purpose, _ = name
        begun_ms = opening.clock.monotonic_ms()
        log = PartitionLog.open(
            OpenRequest(
                **opening.shared(),
                fs=self._fs,
                directory=path,
                config=opening.config_of(partition.topic),
                clean_shutdown=self.is_clean(partition),
                recovery_point=self._files.recovery_points.get(partition, 0),
                log_start_offset=self._files.log_starts.get(partition, 0),
                high_watermark=self._files.high_watermarks.get(partition, 0),
                topic_id=topic_id,
                syncs_name=syncs_name,
                threads=threads,
                on_segment=on_segment,
                listing=listing,
            )
        )
        for warning in log.loaded.warnings:
            _log.warning("%s: %s", log.directory, warning)
        _log.info(
            "Loaded %s with %d segments, %d of them recovered, log start offset %d and log end offset %d in %d ms",
            log.directory,
            len(log.loaded.base_offsets),
            len(log.loaded.recovered),
            log.loaded.log_start_offset,
            log.loaded.end_offset,
            opening.clock.monotonic_ms() - begun_ms,
        )
        if purpose is not DirectoryPurpose.DELETE:  # the directory may also hold a live log of the same partition
            self.logs[partition] = log
        return log

    def is_clean(self, partition: TopicPartition) -> bool:
        """Return True if the directory was clean, or the partition's log was closed cleanly in this run."""
        return self.was_clean or partition in self._clean_partitions

    def recovery_point(self, partition: TopicPartition) -> int:
        """Return the last known recovery point, 0 if there is none."""
        return self._files.recovery_points.get(partition, 0)

    def note_closed(self, partition: TopicPartition) -> None:
        """Record the offsets of a closed log, which may be opened again."""
        log = self.logs.pop(partition)
        if log.is_healthy:
            self._clean_partitions.add(partition)
        else:
            self.was_clean = False
        with self._files.lock:
            self._note(partition, log)

    def adopt(self, partition: TopicPartition, end_offset: int) -> None:
        """Record a log that was moved in complete and synced. It starts at its first segment and counts as clean."""
        self._clean_partitions.add(partition)
        with self._files.lock:
            self._files.recovery_points[partition] = self._files.high_watermarks[partition] = end_offset
            self._files.log_starts.pop(partition, None)

    def forget(self, partition: TopicPartition) -> None:
        """Drop a log that left the directory from all checkpoints."""
        with self._files.lock:
            self.logs.pop(partition, None)
            self._files.forget(partition)

    def producers(
        self, only: TopicPartition | None = None
    ) -> Iterator[tuple[TopicPartition, Mapping[int, ProducerEntry]]]:
        """Yield the producers of each partition, or of ``only`` one. Those of unopened partitions come from files.

        An unreadable partition is skipped with a warning.
        """
        from tidelog.storage.log.view.view_producers import read_producers

        logs = dict(self.logs)
        for partition in live_partitions(self._fs, self.path):
            if partition.topic == CLUSTER_METADATA_TOPIC or only not in (None, partition):
                continue
            opened = logs.get(partition)
            try:
                yield partition, opened.producers if opened else read_producers(self._view(partition))
            except TidelogError as error:
                _log.warning("%s: its producers cannot be read: %s", self.path / partition.directory_name, error)

    def sync(self) -> None:
        """Sync the directory, so that the names of its partition directories are durable."""
        self._fs.sync_dir(self.path)

    # --- checkpoints ---

    def checkpoint_recovery_points(self) -> None:
        self._checkpoint(RECOVERY_POINT_CHECKPOINT)

    def checkpoint_log_starts(self) -> None:
        self._checkpoint(LOG_START_CHECKPOINT)

    def checkpoint_high_watermarks(self) -> None:
        self._checkpoint(HIGH_WATERMARK_CHECKPOINT)

    def checkpoint(self) -> None:
        """Write all three checkpoints."""
        self._checkpoint(RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)

    # --- the end ---

    def stop(self, *, broker_epoch: int | None = None, all_closed: bool = True) -> None:
        """Shut down cleanly after closing the logs. The call is idempotent.

        ``all_closed`` means that every log closed cleanly. ``broker_epoch`` None keeps the marker's previous epoch.
        """
        if self._files.is_released:
            return
        try:
            self.checkpoint()
            if all_closed and (self.was_clean or self._every_partition_is_clean()):
                self._files.mark_clean(broker_epoch)
        finally:
            self.release()

    def release(self) -> None:
        """Release the lock. Nothing is written afterwards, because another process may own the directory then."""
        self._files.release()

    def go_offline(self, failure: StorageError) -> list[TopicPartition]:
        """Close the logs, which raise ``failure`` from now on, and release the lock, because the disk failed."""
        self.failure = failure
        gone, self.logs = self.logs, {}
        for log in gone.values():
            try:
                log.close_handlers(offline=failure)
            except StorageError as error:
                _log.debug("%s", error)
        self.release()
        return list(gone)

    # --- inside ---

    def _every_partition_is_clean(self) -> bool:
        """Return True if no partition is left that recovery would check. It does not check the metadata log."""
        partitions = live_partitions(self._fs, self.path)
        return self._clean_partitions.issuperset(one for one in partitions if one.topic != CLUSTER_METADATA_TOPIC)

    def _checkpoint(self, *names: str) -> None:
        with self._files.lock:
            for partition, log in list(self.logs.items()):
                self._note(partition, log)
            self._files.write(*names)

    def _note(self, partition: TopicPartition, log: PartitionLog) -> None:
        self._files.recovery_points[partition] = log.synced_offset
        self._files.high_watermarks[partition] = log.high_watermark
        if log.starts_inside_segment:
            self._files.log_starts[partition] = log.log_start_offset
        else:
            self._files.log_starts.pop(partition, None)

    def _read_properties(self) -> MetaProperties | None:
        try:
            return MetaProperties.read(self._fs, self.path / META_PROPERTIES_FILE)
        except CheckpointError as error:
            _log.warning("%s; the directory has no id", error)
            return None

    def _view(self, partition: TopicPartition) -> LogView:
        """Return a view of an unopened partition, as its last owner in this run or before left it."""
        from tidelog.storage.log.view.log_view import LogView  # imported late: rarely needed

        state = DirectoryState(
            path=self.path,
            condition=DirectoryCondition.CLEAN if self.is_clean(partition) else DirectoryCondition.UNCLEAN,
            recovery_points=self._files.recovery_points,
            log_start_offsets=self._files.log_starts,
        )
        return LogView(self._fs, self.path / partition.directory_name, directory_state=state)
