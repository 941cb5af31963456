"""A log directory that this process owns: its lock, its marker, its checkpoints, its id, and the logs open in it.

Holds ``.lock`` from opening to release, so that a broker and tidelog exclude each other. State machine:

====================  =============================================================================================
opened                the lock is taken; marker, checkpoints and ``meta.properties`` are read
``mark_open``         the marker is removed, and unfinished small files: from here on a crash counts as a kill
a log is opened       loaded as after an orderly stop if the marker was there, else recovered from its recovery point
``checkpoint``        recovery points, log starts and high watermarks are written
``stop``              checkpoints are written; the marker too, if it was there or every partition was opened (and so
                      recovered) here, and every log was closed in order; the lock goes last
``give_up``           the disk failed: logs are let go, nothing is written any more, the lock goes
====================  =============================================================================================

Entries of partitions that were not opened stay in the checkpoints as they are. What a crash leaves: no marker, and
checkpoints that lag behind; loading deals with it.
Called by: ``LogManager``, ``WrittenDirectory``. Thread rule: any thread; whoever owns the directory sees to it that a
partition is opened once. Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model import CheckpointError, StorageError, TidelogError, TopicPartition
from tidelog.storage.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT,
    CleanShutdownFile,
    MetaProperties,
    OffsetCheckpoint,
)
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.load.listing import TEMPORARY_SUFFIX, PartitionListing
from tidelog.storage.log.load.walk_ahead import WalkThreads
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.view.directory_state import LOCK_FILE, Condition, DirectoryState
from tidelog.storage.log.view.partitions import live_partitions
from tidelog.storage.manager.cluster_metadata import METADATA_TOPIC
from tidelog.storage.manager.logs.log_opening import LogOpening
from tidelog.storage.producer import ProducerEntry
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName
from tidelog.storage.segment.segment_recovery import RecoveredSegment

if TYPE_CHECKING:
    from tidelog.storage.log.view.log_view import LogView

UNKNOWN_BROKER_EPOCH = -1
_SMALL_FILES = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_CHECKPOINT,
    META_PROPERTIES_FILE,
    CLEAN_SHUTDOWN_FILE,
)

_log = logging.getLogger(__name__)


class LogDirectory:
    def __init__(self, fs: FileSystem, path: Path) -> None:
        """Open and lock; the directory is made where it is missing. LockedError where another holds it."""
        if not fs.exists(path):
            fs.make_dir(path)
            fs.sync_dir(path.absolute().parent)
        self._fs = fs
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        """Current and future ones; a partition has one log in a directory."""
        self.failure: StorageError | None = None
        """Why the directory is offline."""
        self._settled: set[TopicPartition] = set()
        self._checkpoints = threading.Lock()
        self._is_released = False
        self._lock = fs.lock(path / LOCK_FILE)
        try:
            self._marker = CleanShutdownFile(fs, path)
            self.was_clean = self._marker.exists()
            self.broker_epoch = self._marker.read()
            self._recovery_points = self._read(RECOVERY_POINT_CHECKPOINT)
            self._log_starts = self._read(LOG_START_CHECKPOINT)
            self._high_watermarks = self._read(HIGH_WATERMARK_CHECKPOINT)
            self._properties = self._read_properties()
        except BaseException:
            self._lock.release()
            raise

    @property
    def is_online(self) -> bool:
        return self.failure is None

    @property
    def id(self) -> uuid.UUID | None:
        """As ``meta.properties`` has it; None in a directory without one, or without an id (before 3.7)."""
        return None if self._properties is None else self._properties.directory_id

    @property
    def node_id(self) -> int | None:
        return None if self._properties is None else self._properties.node_id

    def mark_open(self) -> None:
        """From here on a crash counts as a kill. What a crash left of an unfinished write of a small file goes."""
        self._marker.remove()
        for name in _SMALL_FILES:
            self._fs.remove(self.path / (name + TEMPORARY_SUFFIX), missing_ok=True)

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
        """Load a partition directory in this one, made if it is not there, and keep its log among ``logs``.

        ``name``: what ``path`` says; ``syncs_name``: as in ``OpenRequest``; ``threads`` and what follows it: as in
        ``LoadRequest``. A log that is to be deleted is not kept: it is the caller's. What loading has to say goes to
        the log file.
        """
        partition, purpose, _ = name
        begun_ms = opening.clock.monotonic_ms()
        log = PartitionLog.open(
            OpenRequest(
                fs=self._fs,
                directory=path,
                clock=opening.clock,
                config=opening.config_of(partition.topic),
                clean_shutdown=self.is_clean(partition),
                recovery_point=self._recovery_points.get(partition, 0),
                log_start_offset=self._log_starts.get(partition, 0),
                high_watermark=self._high_watermarks.get(partition, 0),
                is_sole_replica=opening.is_sole_replica,
                verifies_transactions=opening.verifies_transactions,
                topic_id=topic_id,
                syncs_name=syncs_name,
                on_failure=opening.on_failure,
                on_flush=opening.on_flush,
                scheduler=opening.scheduler,
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
        if purpose is not DirectoryPurpose.DELETE:  # beside it there may be a log of the same partition
            self.logs[partition] = log
        return log

    def is_clean(self, partition: TopicPartition) -> bool:
        """A log closed in order within this run is as one after an orderly stop."""
        return self.was_clean or partition in self._settled

    def recovery_point(self, partition: TopicPartition) -> int:
        """As it was last known; 0 where it never was."""
        return self._recovery_points.get(partition, 0)

    def closed(self, partition: TopicPartition) -> None:
        """A log was closed and may be opened again: its offsets are noted."""
        log = self.logs.pop(partition)
        if log.is_sound:
            self._settled.add(partition)
        else:
            self.was_clean = False
        with self._checkpoints:
            self._note(partition, log)

    def take_in(self, partition: TopicPartition, end_offset: int) -> None:
        """A log was moved in, whole and on the disk, that starts with its first segment: as if closed here in order."""
        self._settled.add(partition)
        with self._checkpoints:
            self._recovery_points[partition] = self._high_watermarks[partition] = end_offset
            self._log_starts.pop(partition, None)

    def forget(self, partition: TopicPartition) -> None:
        """A log has left the directory: no checkpoint speaks of it any more."""
        with self._checkpoints:
            self.logs.pop(partition, None)
            for offsets in (self._recovery_points, self._log_starts, self._high_watermarks):
                offsets.pop(partition, None)

    def producers(
        self, only: TopicPartition | None = None
    ) -> Iterator[tuple[TopicPartition, Mapping[int, ProducerEntry]]]:
        """What each partition, or ``only`` that one, knows of producers; of one not open here what its files say.

        A partition that cannot be read is warned of and left out.
        """
        from tidelog.storage.log.view.view_producers import read_producers

        logs = dict(self.logs)
        for partition in live_partitions(self._fs, self.path):
            if partition.topic == METADATA_TOPIC or only not in (None, partition):
                continue
            opened = logs.get(partition)
            try:
                yield partition, opened.producers if opened else read_producers(self._view(partition))
            except TidelogError as error:
                _log.warning("%s: its producers are not known: %s", self.path / partition.directory_name, error)

    def sync(self) -> None:
        """Have the names of its partition directories on the disk."""
        self._fs.sync_dir(self.path)

    # --- checkpoints ---

    def checkpoint_recovery_points(self) -> None:
        self._checkpoint(RECOVERY_POINT_CHECKPOINT)

    def checkpoint_log_starts(self) -> None:
        self._checkpoint(LOG_START_CHECKPOINT)

    def checkpoint_high_watermarks(self) -> None:
        self._checkpoint(HIGH_WATERMARK_CHECKPOINT)

    def checkpoint(self) -> None:
        """All three."""
        self._checkpoint(RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)

    # --- the end ---

    def stop(self, *, broker_epoch: int | None = None, in_order: bool = True) -> None:
        """An orderly end, once the logs are closed; ``in_order``: all of them could be. Idempotent.

        ``broker_epoch`` None: as the marker had it.
        """
        if self._is_released:
            return
        try:
            self.checkpoint()
            if in_order and (self.was_clean or self._all_settled()):
                known = UNKNOWN_BROKER_EPOCH if self.broker_epoch is None else self.broker_epoch
                self._marker.write(known if broker_epoch is None else broker_epoch)
        finally:
            self.release()

    def release(self) -> None:
        """Let go of the lock; nothing is written any more, as the directory may be another's from now on."""
        with self._checkpoints:
            self._is_released = True
            self._lock.release()

    def give_up(self, failure: StorageError) -> list[TopicPartition]:
        """The disk failed: let go of the logs, which answer with ``failure`` from now on, and of the lock."""
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

    def _all_settled(self) -> bool:
        """Nothing is left that a recovery would look at; the metadata log is not among what it does."""
        partitions = live_partitions(self._fs, self.path)
        return self._settled.issuperset(one for one in partitions if one.topic != METADATA_TOPIC)

    def _checkpoint(self, *names: str) -> None:
        offsets = {
            RECOVERY_POINT_CHECKPOINT: self._recovery_points,
            LOG_START_CHECKPOINT: self._log_starts,
            HIGH_WATERMARK_CHECKPOINT: self._high_watermarks,
        }
        with self._checkpoints:
            if self._is_released:  # a task may come too late
                return
            for partition, log in list(self.logs.items()):
                self._note(partition, log)
            for name in names:
                OffsetCheckpoint.write(self._fs, self.path / name, offsets[name])

    def _note(self, partition: TopicPartition, log: PartitionLog) -> None:
        self._recovery_points[partition] = log.synced_offset
        self._high_watermarks[partition] = log.high_watermark
        if log.starts_inside_segment:
            self._log_starts[partition] = log.log_start_offset
        else:
            self._log_starts.pop(partition, None)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        """An unreadable checkpoint counts as empty and is warned of, as by a broker."""
        try:
            return OffsetCheckpoint.read(self._fs, self.path / name)
        except CheckpointError as error:
            _log.warning("%s; taken as empty", error)
            return {}

    def _read_properties(self) -> MetaProperties | None:
        try:
            return MetaProperties.read(self._fs, self.path / META_PROPERTIES_FILE)
        except CheckpointError as error:
            _log.warning("%s; the directory has no id", error)
            return None

    def _view(self, partition: TopicPartition) -> LogView:
        """Of a partition that is not open: as it was left, by whoever had it before or in this run."""
        from tidelog.storage.log.view.log_view import LogView  # which few have need of

        state = DirectoryState(
            path=self.path,
            condition=Condition.CLEAN if self.is_clean(partition) else Condition.KILLED,
            recovery_points=self._recovery_points,
            log_start_offsets=self._log_starts,
        )
        return LogView(self._fs, self.path / partition.directory_name, directory_state=state)
