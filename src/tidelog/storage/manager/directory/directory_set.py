"""The log directories of one manager: online, offline with the reason, or just failed.

``open`` checks them before anything is locked or written:

====================================  ========================================================================
a directory                           effect
====================================  ========================================================================
configured twice (links resolved)     DirectoryError: nothing is opened
missing                               created
not a directory, not readable, or     offline, with the reason; the others are used
cannot be created
locked by another process             LockedError from ``LogDirectory``: nothing is opened
====================================  ========================================================================

If no directory is usable, a DirectoryError lists all reasons.

A disk failure may occur under a log's lock, where no other lock may be taken. So it is only noted, and the next call of
``take_failures`` handles it outside that lock. Each directory fails once. Thread rule: the caller holds the manager's
lock. Any thread may call ``note_failure`` and ``run_guarded``. Source: Kafka's ``LogManager.createAndValidateLogDirs``,
``LogDirFailureChannel``, ``LogManager.shutdown``.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import DirectoryError, StorageError, TidelogError, TopicPartition
from tidelog.runtime.parallel import ThreadGroup, run_groups
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.directory.log_directory import LogDirectory

_CLOSING_THREADS = 8
"""Threads that close logs wait for the disk, and the file system makes many waiting syncs durable at once."""

_log = logging.getLogger(__name__)


def level_of(error: TidelogError) -> int:
    """Return the log level for an error. A disk failure is an error only once, when its directory goes offline."""
    return logging.DEBUG if isinstance(error, StorageError) and error.is_disk_failure else logging.ERROR


class DirectorySet:
    def __init__(self, fs: FileSystem, paths: Sequence[Path], on_failure: Callable[[], None]) -> None:
        """The callback ``on_failure`` signals that there is a failure to take. It must not wait for a lock."""
        self._fs = fs
        self.paths = tuple(paths)
        self._on_failure = on_failure
        self._online: dict[Path, LogDirectory] = {}
        self._offline: dict[Path, StorageError] = {}
        self._failures: deque[StorageError] = deque()
        self.cordoned: frozenset[Path] = frozenset()
        """The configured directories that get no new partitions (KIP-1066)."""

    def open(self) -> None:
        """Check and lock all directories. Raise as ``check_directories`` and ``LogDirectory`` do."""
        checked = check_directories(self._fs, self.paths)
        self._offline.update(checked.offline)
        for path in checked.usable:
            try:
                self._online[path] = LogDirectory(self._fs, path)
            except StorageError as error:
                if not error.is_disk_failure:
                    raise
                _log.error("Disk error while locking or reading %s: %s", path, error)
                self._offline[path] = error
        self.require_one()

    def require_one(self) -> None:
        """Raise DirectoryError if none is online."""
        if not self._online:
            raise DirectoryError(f"none of the log directories can be used: {reasons_of(self._offline)}")

    @property
    def online(self) -> tuple[LogDirectory, ...]:
        return tuple(self._online.values())

    @property
    def offline(self) -> Mapping[Path, StorageError]:
        return self._offline

    @property
    def offline_text(self) -> str:
        return ", ".join(map(str, self._offline))

    def at(self, path: Path) -> LogDirectory | None:
        """Return the online directory at a configured path."""
        return self._online.get(path)

    def directory_of(self, log: PartitionLog) -> LogDirectory:
        """Return the log's directory. Raise StorageError if it is offline."""
        directory = self.at(log.directory.parent)
        if directory is None:
            raise StorageError("the log directory is offline", path=log.directory.parent)
        return directory

    def containing(self, path: Path) -> LogDirectory | None:
        """Return the online directory that contains a file or a partition."""
        return next((self._online[one] for one in (path, *path.parents) if one in self._online), None)

    def with_id(self, directory_id: uuid.UUID) -> LogDirectory | None:
        return next((directory for directory in self.online if directory.id == directory_id), None)

    def for_new_logs(self) -> list[Path]:
        """Return the log directories that accept a new log, those with the fewest logs first.

        Cordoned ones are left out. If all are cordoned, the first one takes it: the controller refuses new partitions
        then, so this log is of a partition that the broker already has.
        """
        open_ones = [directory for directory in self.online if directory.path not in self.cordoned]
        wanted = sorted(open_ones or self.online[:1], key=lambda directory: len(directory.logs))
        return [directory.path for directory in wanted]

    def close_logs(self, threads: int) -> set[Path]:
        """Flush and close every log, with ``threads`` for each directory, and at least ``_CLOSING_THREADS``.

        Return the paths of the directories in which a log failed to close.
        """
        failed: set[Path] = set()

        def close(directory: LogDirectory, partition: TopicPartition) -> None:
            try:
                directory.logs[partition].close()
            except TidelogError as error:
                _log.log(level_of(error), "%s was not closed cleanly: %s", directory.logs[partition].directory, error)
                failed.add(directory.path)
            directory.note_closed(partition)

        threads = max(threads, _CLOSING_THREADS)
        run_groups(
            lambda log: close(*log),
            (
                ThreadGroup(f"log-closing-{directory.path}", threads, [(directory, one) for one in directory.logs])
                for directory in self.online
            ),
        )
        return failed

    # --- failures ---

    def note_failure(self, error: StorageError) -> None:
        """Note an operating system error as a disk failure. Damaged contents are no disk failure."""
        if error.is_disk_failure:
            self._failures.append(error)
            self._on_failure()

    def run_guarded(self, work: Callable[[], None]) -> None:
        """Run ``work``. A disk failure takes its directory offline and is not raised."""
        try:
            work()
        except StorageError as error:
            _log.log(level_of(error), "%s", error)
            self.note_failure(error)

    def take_failures(self) -> Iterator[tuple[LogDirectory, StorageError]]:
        """Yield the directories that have failed since the last call. Each goes offline."""
        while self._failures:
            error = self._failures.popleft()
            directory = self.containing(Path(error.path or ""))
            if directory is not None:
                _log.error("The log directory %s is offline because its disk failed: %s", directory.path, error)
                del self._online[directory.path]
                self._offline[directory.path] = error
                yield directory, error

    def release(self) -> None:
        """Close everything without a clean shutdown, after a failed startup."""
        for directory in self.online:
            for log in directory.logs.values():
                log.close_handlers()
            directory.release()
        self._online.clear()


@dataclass(frozen=True, slots=True)
class CheckedDirectories:
    usable: tuple[Path, ...]
    offline: dict[Path, StorageError]


def check_directories(fs: FileSystem, paths: Sequence[Path]) -> CheckedDirectories:
    """Check the directories. Raise DirectoryError if there is none, a duplicate, or none that is usable."""
    if not paths:
        raise DirectoryError("no log directory is configured: log.dirs is empty")
    seen: dict[Path, Path] = {}
    for path in paths:
        real = path.resolve()
        if real in seen:
            raise DirectoryError(f"Duplicate log directory found: it is the same directory as {seen[real]}", path=path)
        seen[real] = path
    offline: dict[Path, StorageError] = {}
    for path in paths:
        try:
            _make_and_list(fs, path)
        except StorageError as error:
            _log.error("The log directory %s cannot be used: %s", path, error)
            offline[path] = error
    if len(offline) == len(paths):
        raise DirectoryError(f"none of the log directories can be created or read: {reasons_of(offline)}")
    return CheckedDirectories(tuple(path for path in paths if path not in offline), offline)


def reasons_of(offline: Mapping[Path, StorageError]) -> str:
    """Return why each directory is offline, with the failing file, in one line."""
    return "; ".join(map(str, offline.values()))


def _make_and_list(fs: FileSystem, path: Path) -> None:
    if not fs.exists(path):
        _log.info("Log directory %s not found, creating it", path)
        fs.make_dir(path)
        fs.sync_dir(path.absolute().parent)
    fs.list_names(path)
