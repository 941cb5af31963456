"""A log directory that this process writes to: its lock, its marker, its checkpoints, and the logs open in it.

Owns ``.lock`` (held from opening to closing, so a broker and tidelog exclude each other), ``.kafka_cleanshutdown`` and
the checkpoints. State machine:

====================  =============================================================================================
opening               the lock is taken; the marker is remembered and removed, so that a crash counts as a kill
a log is opened       loaded as after an orderly stop if the marker was there, else recovered from its recovery point
a log is flushed      recovery points, log starts and high watermarks are written
closing               logs are closed, checkpoints written; the marker is written again if it was there, or if every
                      partition of the directory was opened (and so recovered) here; the lock goes last
====================  =============================================================================================

Entries of partitions that were not opened stay in the checkpoints as they are. What a crash leaves: no marker, and
checkpoints that lag behind; loading deals with it. A forked child that inherits a directory may only let go of it.
Called by: the API. Thread rule: any thread. Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tidelog.model import (
    CheckpointError,
    ClosedError,
    DirectoryError,
    LockedError,
    StorageError,
    TidelogError,
    TopicPartition,
)
from tidelog.runtime import Clock
from tidelog.storage.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT,
    CleanShutdownFile,
    MetaProperties,
    OffsetCheckpoint,
)
from tidelog.storage.fs import FileSystem, ForkGuard
from tidelog.storage.log.append.record_writer import RecordWriter
from tidelog.storage.log.config import LogConfig
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.view.directory_state import LOCK_FILE, Condition, DirectoryState
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import live_partitions
from tidelog.storage.log.view.view_producers import read_producers
from tidelog.storage.manager.cluster_metadata import METADATA_TOPIC, ClusterMetadata, read_cluster_metadata
from tidelog.storage.manager.producer_sessions import ProducerSessions
from tidelog.storage.producer import ProducerEntry

UNKNOWN_BROKER_EPOCH = -1

_log = logging.getLogger(__name__)


class LogDirectory:
    """``config`` None: each topic's settings from the cluster metadata in the directory, defaults for the rest."""

    def __init__(self, fs: FileSystem, path: Path, *, clock: Clock, config: LogConfig | None = None) -> None:
        """Open and lock; the directory is made where it is missing. LockedError where another holds it."""
        if not fs.exists(path):
            fs.make_dir(path)
        self._fs = fs
        self._path = path
        self._clock = clock
        self._config = config
        self._guard = ForkGuard(path)
        self._mutex = threading.Lock()
        self._closed = False
        self._logs: dict[TopicPartition, DirectoryLog] = {}
        self._settled: set[TopicPartition] = set()
        self._lock = fs.lock(path / LOCK_FILE)
        try:
            marker = CleanShutdownFile(fs, path)
            self._was_clean = marker.exists()
            self._broker_epoch = marker.read()
            self._recovery_points = self._read(RECOVERY_POINT_CHECKPOINT)
            self._log_starts = self._read(LOG_START_CHECKPOINT)
            self._high_watermarks = self._read(HIGH_WATERMARK_CHECKPOINT)
            self._metadata = ClusterMetadata() if config else read_cluster_metadata(fs, path)
            self._node_id = _node_id(fs, path)
            marker.remove()
        except BaseException:
            self._lock.release()
            raise

    @property
    def path(self) -> Path:
        return self._path

    def open_log(self, path: Path) -> DirectoryLog:
        """Load a partition of this directory, made if it is not there.

        DirectoryError for a name that is not TOPIC-PARTITION; LockedError for a log that is open already.
        """
        self._guard.check()
        partition = TopicPartition.from_directory_name(path.name)
        if partition.topic == METADATA_TOPIC:
            raise DirectoryError("the cluster metadata belongs to its controllers", path=path)
        with self._mutex:
            self._require_open()
            if partition in self._logs:
                raise LockedError("the log is open in this process already", path=path)
            begun_ms = self._clock.monotonic_ms()
            log = PartitionLog.open(
                OpenRequest(
                    fs=self._fs,
                    directory=self._path / path.name,
                    clock=self._clock,
                    config=self._config_of(partition.topic),
                    # A log closed in order within this run is as one after an orderly stop.
                    clean_shutdown=self._was_clean or partition in self._settled,
                    recovery_point=self._recovery_points.get(partition, 0),
                    log_start_offset=self._log_starts.get(partition, 0),
                )
            )
            _tell(log, self._clock.monotonic_ms() - begun_ms)
            self._logs[partition] = opened = DirectoryLog(log, self._clock, self._after_flush, self._after_close)
            return opened

    def producers(
        self, only: TopicPartition | None = None
    ) -> Iterator[tuple[TopicPartition, Mapping[int, ProducerEntry]]]:
        """What each partition, or ``only`` that one, knows of producers; of one not open here what its files say.

        A partition that cannot be read is warned of and left out.
        """
        with self._mutex:
            logs = dict(self._logs)
        for partition in live_partitions(self._fs, self._path):
            if partition.topic == METADATA_TOPIC or only not in (None, partition):
                continue
            opened = logs.get(partition)
            try:
                yield partition, opened.log.producers if opened else read_producers(self._view(partition))
            except TidelogError as error:
                _log.warning("%s: its producers are not known: %s", self._path / partition.directory_name, error)

    def checkpoint(self) -> None:
        """Write what is known of the open logs into the three checkpoints."""
        self._guard.check()
        with self._mutex:
            self._write_checkpoints()

    def close(self) -> None:
        """An orderly stop; idempotent. If a log cannot be closed, the others are, and the lock is released; then the
        first failure is raised."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            logs = list(self._logs.values())
        if not self._guard.is_owner:
            for log in logs:
                log.log.close()
            return
        failures = []
        try:
            for log in logs:
                try:
                    log.close()
                except StorageError as error:
                    failures.append(error)
            with self._mutex:
                self._write_checkpoints()
                everything = set(live_partitions(self._fs, self._path))
                if self._was_clean or everything <= self._settled:
                    epoch = UNKNOWN_BROKER_EPOCH if self._broker_epoch is None else self._broker_epoch
                    CleanShutdownFile(self._fs, self._path).write(epoch)
        finally:
            self._lock.release()
        if failures:
            raise failures[0]

    # --- inside ---

    def _after_flush(self, log: DirectoryLog) -> None:
        self.checkpoint()

    def _after_close(self, log: DirectoryLog) -> None:
        partition = TopicPartition.from_directory_name(log.log.directory.name)
        with self._mutex:
            if log.log.is_sound:
                self._settled.add(partition)
            else:
                self._was_clean = False
            self._logs.pop(partition, None)
            self._note(partition, log.log)
            self._write_checkpoints()

    def _note(self, partition: TopicPartition, log: PartitionLog) -> None:
        self._recovery_points[partition] = log.recovery_point
        self._high_watermarks[partition] = log.high_watermark
        if log.starts_inside_segment:
            self._log_starts[partition] = log.log_start_offset
        else:
            self._log_starts.pop(partition, None)

    def _write_checkpoints(self) -> None:
        for partition, log in self._logs.items():
            self._note(partition, log.log)
        for name, offsets in (
            (RECOVERY_POINT_CHECKPOINT, self._recovery_points),
            (LOG_START_CHECKPOINT, self._log_starts),
            (HIGH_WATERMARK_CHECKPOINT, self._high_watermarks),
        ):
            OffsetCheckpoint.write(self._fs, self._path / name, offsets)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        """An unreadable checkpoint counts as empty and is warned of, as by a broker."""
        try:
            return OffsetCheckpoint.read(self._fs, self._path / name)
        except CheckpointError as error:
            _log.warning("%s; taken as empty", error)
            return {}

    def _view(self, partition: TopicPartition) -> LogView:
        """Of a partition that is not open: as it was left, by whoever had it before or in this run."""
        was_clean = self._was_clean or partition in self._settled
        state = DirectoryState(
            path=self._path,
            condition=Condition.CLEAN if was_clean else Condition.KILLED,
            recovery_points=self._recovery_points,
            log_start_offsets=self._log_starts,
        )
        return LogView(self._fs, self._path / partition.directory_name, directory_state=state)

    def _config_of(self, topic: str) -> LogConfig:
        if self._config is not None:
            return self._config
        return LogConfig.from_properties(self._metadata.settings_of(topic, self._node_id), ignore_unknown=True)

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError("the log directory is closed", path=self._path)


class DirectoryLog:
    """A log of a LogDirectory with the calls of a writer of records."""

    def __init__(
        self,
        log: PartitionLog,
        clock: Clock,
        after_flush: Callable[[DirectoryLog], None],
        after_close: Callable[[DirectoryLog], None],
    ) -> None:
        records = RecordWriter(log, clock)
        self.log = log
        self.append = records.append
        self.append_batch = records.append_batch
        self._after_flush = after_flush
        self._after_close = after_close
        self._closed = False

    def flush(self) -> None:
        """Return when everything appended so far is on disk, and noted in the checkpoints."""
        self.log.flush()
        self._after_flush(self)

    def close(self) -> None:
        """Idempotent."""
        if not self._closed:
            self._closed = True
            try:
                self.log.close()
            finally:
                if self.log.is_owner:
                    self._after_close(self)


class SingleLog:
    """The log of ``open_log``: closing it closes the log directory that was opened for it."""

    def __init__(self, fs: FileSystem, directory: Path, *, clock: Clock, config: LogConfig | None = None) -> None:
        """Open the partition ``directory`` for writing; the log directory is the one around it."""
        partition = TopicPartition.from_directory_name(directory.name)
        self._home = home = LogDirectory(fs, directory.parent, clock=clock, config=config)
        try:
            opened = self._home.open_log(directory)
        except BaseException:
            self._home.close()
            raise
        self.log = log = opened.log
        self.append = opened.append
        self.append_batch = opened.append_batch
        self.flush = opened.flush
        self.producers = ProducerSessions([home], lambda _: log, clock=clock, only=partition)

    def close(self) -> None:
        """Idempotent."""
        self._home.close()


def _tell(log: PartitionLog, took_ms: int) -> None:
    """One line for a loaded log, and what loading had to warn of."""
    loaded = log.loaded
    for warning in loaded.warnings:
        _log.warning("%s: %s", log.directory, warning)
    _log.info(
        "Loaded %s with %d segments, %d of them recovered, log start offset %d and log end offset %d in %d ms",
        log.directory,
        len(loaded.base_offsets),
        len(loaded.recovered),
        loaded.log_start_offset,
        loaded.end_offset,
        took_ms,
    )


def _node_id(fs: FileSystem, path: Path) -> int | None:
    try:
        properties = MetaProperties.read(fs, path / META_PROPERTIES_FILE)
    except CheckpointError:
        return None
    return None if properties is None else properties.node_id
