"""The files of a log directory that belong to its owner: lock, clean shutdown marker, checkpoints of offsets.

====================  =============================================================================================
opened                ``.lock`` is taken, so that a broker and tidelog exclude each other; the files are read
``mark_open``         the marker and unfinished small files are removed: a later crash is an unclean shutdown
``write``             checkpoints are replaced; after ``release`` the call does nothing
``mark_clean``        the marker is written, with its previous broker epoch or another
``release``           the lock is released, and another process may own the directory
====================  =============================================================================================

An unreadable checkpoint counts as empty, as in a broker, and causes a warning. Thread rule: ``write`` and ``release``
may run in any threads. The caller guards the offsets with ``lock``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

from tidelog.model import CheckpointError, TopicPartition
from tidelog.storage.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT,
    CleanShutdownFile,
    OffsetCheckpoint,
)
from tidelog.storage.fs import TEMPORARY_SUFFIX, FileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE

UNKNOWN_BROKER_EPOCH = -1
_UNFINISHED_FILES = tuple(
    name + TEMPORARY_SUFFIX
    for name in (
        RECOVERY_POINT_CHECKPOINT,
        LOG_START_CHECKPOINT,
        HIGH_WATERMARK_CHECKPOINT,
        CLEANER_CHECKPOINT,
        META_PROPERTIES_FILE,
        CLEAN_SHUTDOWN_FILE,
    )
)


class OwnedDirectory:
    def __init__(self, fs: FileSystem, path: Path) -> None:
        """Lock the directory. LockedError means that another process holds it."""
        self._fs = fs
        self.path = path
        self.lock = threading.RLock()
        """Guards the offsets and their files."""
        self.is_released = False
        self.warnings: list[str] = []
        self.unreadable: set[str] = set()
        """The names of checkpoints that could not be read."""
        self._file_lock = fs.lock(path / LOCK_FILE)
        try:
            self._marker = CleanShutdownFile(fs, path)
            self.was_clean = self._marker.exists()
            self.broker_epoch = self._marker.read()
            self.recovery_points = self._read(RECOVERY_POINT_CHECKPOINT)
            self.log_starts = self._read(LOG_START_CHECKPOINT)
            self.high_watermarks = self._read(HIGH_WATERMARK_CHECKPOINT)
        except BaseException:
            self._file_lock.release()
            raise

    def mark_open(self, unfinished: Iterable[str] = _UNFINISHED_FILES) -> None:
        """Remove the marker, so that a later crash is an unclean shutdown, and unfinished writes of small files."""
        self._marker.remove()
        for name in unfinished:
            self._fs.remove(self.path / name, missing_ok=True)

    def forget(self, partition: TopicPartition) -> None:
        """Drop a partition from the offsets. The caller holds ``lock``."""
        for offsets in (self.recovery_points, self.log_starts, self.high_watermarks):
            offsets.pop(partition, None)

    def write(self, *names: str) -> None:
        """Replace checkpoints by the current offsets."""
        with self.lock:
            offsets = {
                RECOVERY_POINT_CHECKPOINT: self.recovery_points,
                LOG_START_CHECKPOINT: self.log_starts,
                HIGH_WATERMARK_CHECKPOINT: self.high_watermarks,
            }
            if not self.is_released:  # a scheduled task may run after the release
                for name in names:
                    OffsetCheckpoint.write(self._fs, self.path / name, offsets[name])

    def mark_clean(self, broker_epoch: int | None = None) -> None:
        """Write the marker. None keeps the previous epoch."""
        known = UNKNOWN_BROKER_EPOCH if self.broker_epoch is None else self.broker_epoch
        self._marker.write(known if broker_epoch is None else broker_epoch)

    def release(self) -> None:
        """Release the lock. The call is idempotent."""
        with self.lock:
            self.is_released = True
            self._file_lock.release()

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return OffsetCheckpoint.read(self._fs, self.path / name)
        except CheckpointError as error:
            self.warnings.append(f"{error}; treated as empty")
            self.unreadable.add(name)
            return {}
