"""A log directory that the Python API opened for writing. Each partition is loaded when it is opened.

Opening removes the clean shutdown marker at once, since an append may follow before everything else is loaded. A clean
close writes it again if that is allowed (``LogDirectory``). A decided commit of staged files is carried out before
anything else (``staged``). A flush updates the checkpoints. Nothing runs in the background: retention and the other
housekeeping belong to the ``LogManager``. A forked child that inherits a directory may only close it. Thread rule: any
thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tidelog.model import ClosedError, LockedError, TopicPartition
from tidelog.runtime import Clock
from tidelog.storage.fs import FileSystem, ForkGuard, run_all
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.writers.record_writer import RecordWriter
from tidelog.storage.manager.directory.log_directory import LogDirectory, LogOpening
from tidelog.storage.manager.metadata.cluster_metadata_log import partition_for_writing
from tidelog.storage.manager.metadata.topic_metadata import read_topic_metadata
from tidelog.storage.manager.producers.producer_sessions import ProducerSessions
from tidelog.storage.manager.staged.roll_forward import RollForward
from tidelog.storage.producer import ProducerEntry
from tidelog.storage.segment.file_names import PartitionDirectoryName


class WritableDirectory:
    """A ``config`` of None takes each topic's settings from the cluster metadata in the directory, over the defaults.

    Topic ids come from there too, because a broker treats a partition without an id as a stray.
    """

    def __init__(self, fs: FileSystem, path: Path, *, clock: Clock, config: LogConfig | None = None) -> None:
        """Open and lock the directory, and create it if missing. LockedError means that another process holds it."""
        self._directory = directory = LogDirectory(fs, path)
        try:
            metadata = read_topic_metadata(fs, path)
            directory.mark_open()

            def config_of(topic: str) -> LogConfig:
                settings = metadata.settings_of(topic, directory.node_id)
                return config or LogConfig.from_properties(settings, ignore_unknown=True)

            self._opening = LogOpening(clock=clock, config_of=config_of)
            roll_forward = RollForward(fs, directory, self._opening, metadata.topic_id)
            roll_forward.complete()
        except BaseException:
            directory.release()
            raise
        self.roll_forward = roll_forward
        """Commits staged files while no log is open."""
        self._metadata = metadata
        self._guard = ForkGuard(path)
        self._mutex = threading.Lock()
        self._closed = False
        self._open: dict[TopicPartition, WritableLog] = {}

    @property
    def path(self) -> Path:
        return self._directory.path

    def open_log(self, path: Path) -> WritableLog:
        """Load a partition of this directory, and create it if missing.

        Raise DirectoryError for a name that is not TOPIC-PARTITION, LockedError if the log is already open. Raise
        InconsistentTopicIdError if it belongs to another topic of that name.
        """
        self._guard.check()
        partition = partition_for_writing(path)
        with self._mutex:
            if self._closed:
                raise ClosedError("the log directory is closed", path=self.path)
            if partition in self._open:
                raise LockedError("the log is already open in this process", path=path)
            topic_id = self._metadata.topic_id(partition.topic)
            directory = self.path / path.name
            log = self._directory.open_log(
                directory, PartitionDirectoryName(partition), self._opening, topic_id=topic_id
            )
            self._open[partition] = opened = WritableLog(
                log, self._opening.clock, self.checkpoint, lambda: self._forget(partition)
            )
            return opened

    def producers(
        self, only: TopicPartition | None = None
    ) -> Iterator[tuple[TopicPartition, Mapping[int, ProducerEntry]]]:
        """Yield the producers as ``LogDirectory.producers`` does."""
        return self._directory.producers(only)

    def checkpoint(self) -> None:
        """Write the three checkpoints with the offsets of the open logs."""
        self._guard.check()
        self._directory.checkpoint()

    def close(self) -> None:
        """Shut down cleanly; idempotent.

        Close every log and release the lock even if one fails, then raise the error.
        """
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            logs = list(self._open.values())
        if not self._guard.is_owner:
            for log in logs:
                log.log.close()
            return
        try:
            run_all(log.close for log in logs)
        finally:
            self._directory.stop()

    def _forget(self, partition: TopicPartition) -> None:
        with self._mutex:
            del self._open[partition]
            self._directory.note_closed(partition)
            self._directory.checkpoint()


class WritableLog:
    """A log with the calls of a record writer. If ``closes`` is True, closing this object closes the log."""

    def __init__(
        self,
        log: PartitionLog,
        clock: Clock,
        after_flush: Callable[[], None],
        after_close: Callable[[], None],
        *,
        closes: bool = True,
    ) -> None:
        records = RecordWriter(log, clock)
        self.log = log
        self.append = records.append
        self.append_batch = records.append_batch
        self._after_flush = after_flush
        self._after_close = after_close
        self._closed = not closes

    def flush(self) -> None:
        """Return when everything appended so far is on disk and in the checkpoints."""
        self.log.flush()
        self._after_flush()

    def close(self) -> None:
        """Close the log unless ``closes`` was False. The call is idempotent."""
        if not self._closed:
            self._closed = True
            try:
                self.log.close()
            finally:
                if self.log.is_owner:
                    self._after_close()


class SingleLog:
    """The log of ``open_log``. Closing it closes the log directory that was opened for it."""

    def __init__(self, fs: FileSystem, directory: Path, *, clock: Clock, config: LogConfig | None = None) -> None:
        """The directory ``directory`` is the partition's. Its parent is opened as the log directory."""
        partition = TopicPartition.from_directory_name(directory.name)
        self._home = home = WritableDirectory(fs, directory.parent, clock=clock, config=config)
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
        """Close the log and its log directory. The call is idempotent."""
        self._home.close()
