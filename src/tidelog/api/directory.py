"""Directory: the partitions of one broker's log directories, by name.

Opening lists the names in each log directory once. A partition's files are read when its log is requested. A Directory
is open, then closed; closing closes the logs that it opened for writing. Thread rule: any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from tidelog.api.log import Log
from tidelog.api.producer import DirectoryProducer
from tidelog.api.transaction import DirectoryTransaction
from tidelog.api.writing import DirectoryWriter
from tidelog.model import ClosedError, DirectoryError, ReadOnlyError, TopicPartition, UnknownTopicOrPartitionError
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.view.directory_state import DirectoryState, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import live_partitions
from tidelog.storage.manager.producers.producer_sessions import ProducerSessions


class Directory:
    """The return value of ``tidelog.open_directory``; a context manager."""

    def __init__(
        self,
        fs: FileSystem,
        paths: Iterable[Path],
        writers: Mapping[Path, DirectoryWriter] | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Raises DirectoryError for a duplicate partition or directory, and FileMissingError for a missing path."""
        self._fs = fs
        self._paths = tuple(paths)
        self._writers = writers
        self._clock = clock
        self._closed = False
        self._lock = threading.Lock()
        self._states: dict[Path, DirectoryState] = {}
        self._open_logs: dict[TopicPartition, Log] = {}
        self._log_dirs = find_partitions(fs, self._paths)
        self._producers: ProducerSessions | None = None
        if writers is not None:
            self._producers = ProducerSessions(list(writers.values()), self._engine_at, clock=clock)

    @property
    def paths(self) -> tuple[Path, ...]:
        return self._paths

    @property
    def read_only(self) -> bool:
        return self._writers is None

    def __repr__(self) -> str:
        state = "closed" if self._closed else "read-only" if self.read_only else "open"
        return f"<Directory {', '.join(map(str, self._paths))} ({state})>"

    def topics(self) -> list[str]:
        """Return the topics, sorted, with the internal ones."""
        self._check_open()
        return sorted({partition.topic for partition in self._log_dirs})

    def partitions(self, topic: str | None = None) -> list[TopicPartition]:
        """Return the sorted partitions of a topic or of all. Raise UnknownTopicOrPartitionError if there are none."""
        self._check_open()
        found = sorted(partition for partition in self._log_dirs if topic is None or partition.topic == topic)
        if topic is not None and not found:
            raise UnknownTopicOrPartitionError(f"no partition of topic '{topic}' in {self._where()}")
        return found

    def refresh(self) -> None:
        """List the partitions again. Logs that were returned before stay open."""
        self._check_open()
        self._log_dirs = find_partitions(self._fs, self._paths)
        self._states = {}

    def state(self, path: Path) -> DirectoryState:
        """Return the lock, marker and checkpoints of a log directory, read once. Raise ValueError for another path."""
        if path not in self._paths:
            raise ValueError(f"{path} is not one of {self._where()}")
        found = self._states.get(path)
        if found is None:
            found = self._states[path] = read_directory_state(self._fs, path)
        return found

    def log(self, topic: str, partition: int) -> Log:
        """Return the log of a partition.

        A directory open for writing creates a missing log, and returns one object until it is closed. A directory open
        for reading raises UnknownTopicOrPartitionError for a missing one.
        """
        self._check_open()
        wanted = TopicPartition(topic, partition)
        if self._writers is None:
            log_dir = self._log_dir_of(wanted)
            return Log(self._view(log_dir, wanted), clock=self._clock)
        return self._opened(wanted, self._writers)

    def producer(self, producer_id: int | None = None, *, epoch: int | None = None) -> DirectoryProducer:
        """Return an idempotent producer for all logs of this directory; see ``Log.producer`` for ids and epochs.

        Taking over an id aborts its open transactions in every partition.
        """
        return DirectoryProducer(self, self._sessions().acquire(producer_id, epoch))

    def transaction(self) -> DirectoryTransaction:
        """Return a transaction over logs of this directory, whose ``append`` takes the log first.

        The end of the block commits it, and an exception aborts it. Each log has all of its records or none. The logs
        get their markers one after the other. A crash between two markers therefore leaves the transaction committed in
        the first logs and open in the others. See ``DirectoryTransaction``.
        """
        return DirectoryTransaction(self, self._sessions())

    def close(self) -> None:
        """Close the directory. Idempotent.

        For writing this is a clean shutdown. Open transactions are aborted and logs are flushed, then checkpoints and
        marker are written and the lock is released.
        """
        if self._producers is not None:
            self._producers.close()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for log in self._open_logs.values():
                log.close()
            for writer in (self._writers or {}).values():
                writer.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the directory is closed", path=self._paths[0])

    def _sessions(self) -> ProducerSessions:
        self._check_open()
        if self._producers is None:
            raise ReadOnlyError("the directory was opened for reading only", path=self._paths[0])
        return self._producers

    def _engine(self, log: Log) -> PartitionLog:
        """Return the engine to append to. Raise ValueError for a log that this directory did not open."""
        self._sessions()
        partition = log.topic_partition
        if not log.closed and (partition is None or self._open_logs.get(partition) is not log):
            raise ValueError(f"{log!r} was not opened by {self!r}")
        return log._engine()

    def _engine_at(self, wanted: TopicPartition) -> PartitionLog:
        return self._opened(wanted, self._writers or {})._engine()

    def _opened(self, wanted: TopicPartition, writers: Mapping[Path, DirectoryWriter]) -> Log:
        """Return the log, open for writing. A new log goes to the log directory with the fewest partitions."""
        with self._lock:
            log = self._open_logs.get(wanted)
            if log is None or log.closed:
                log_dir = self._log_dirs.get(wanted) or self._least_loaded()
                writer = writers[log_dir].open_log(log_dir / wanted.directory_name)
                self._log_dirs[wanted] = log_dir
                log = Log(self._view(log_dir, wanted), writer, self._producers, clock=self._clock)
                self._open_logs[wanted] = log
            return log

    def _log_dir_of(self, wanted: TopicPartition) -> Path:
        log_dir = self._log_dirs.get(wanted)
        if log_dir is None:
            raise UnknownTopicOrPartitionError(f"no partition '{wanted}' in {self._where()}")
        return log_dir

    def _view(self, log_dir: Path, wanted: TopicPartition) -> LogView:
        return LogView(self._fs, log_dir / wanted.directory_name, directory_state=self.state(log_dir))

    def _least_loaded(self) -> Path:
        log_dirs = list(self._log_dirs.values())
        return min(self._paths, key=log_dirs.count)

    def _where(self) -> str:
        return ", ".join(map(str, self._paths))


def find_partitions(fs: FileSystem, paths: Iterable[Path]) -> dict[TopicPartition, Path]:
    """Return each partition's log directory. Raise DirectoryError for duplicates, FileMissingError or StorageError."""
    log_dirs: dict[TopicPartition, Path] = {}
    seen: set[Path] = set()
    for path in paths:
        real = path.resolve()
        if real in seen:
            raise DirectoryError("the same log directory is given twice", path=path)
        seen.add(real)
        for partition in live_partitions(fs, path):
            if partition in log_dirs:
                name = partition.directory_name
                raise DirectoryError(
                    f"Duplicate log directories found: {log_dirs[partition] / name} and {path / name}", path=path / name
                )
            log_dirs[partition] = path
    return log_dirs
